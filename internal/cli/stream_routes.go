package cli

import "berth/op"

func streamRoutesCommand() *command {
	return &command{
		name: "stream routes", args: "[job]", synopsis: "List which exports feed which imports", max: 1,
		help: `Lists the connections between the exports and the imports of stream jobs: all of the namespace, those that begin or end
at a job, or with -pe at a processing element. They follow from what is exported and imported and are not stored. An export is
found by its name or by its properties; a filter is evaluated by the exporting process.`,
		setup: func(f *flags) action {
			pe := f.String("pe", "List the routes of this processing `element` alone, by its name or UID.")
			return streamList[op.RoutesQuery, op.StreamRoute]{
				data: f.data(), op: op.ListRoutes, none: "No routes", table: routeRows,
				of: func(job string, q op.Query) op.RoutesQuery { return op.RoutesQuery{Job: job, PE: *pe, Query: q} },
			}.run
		},
	}
}

func routeRows(list []op.StreamRoute) [][]string {
	rows := [][]string{{"From", "Output", "To", "Input", "By", "Filter"}}
	for i := range list {
		v := &list[i]
		rows = append(rows, []string{v.From.PE, v.From.Port, v.To.PE, v.To.Port, v.By, or(v.Filter, none)})
	}
	return rows
}
