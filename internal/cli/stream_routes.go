package cli

import "berth/op"

// streamRoutesCommand lists which processing elements send data to which.
func streamRoutesCommand() *command {
	return &command{
		name: "stream routes", args: "[job]", synopsis: "List the connections between exports and imports", max: 1,
		example: "stream routes wordcount",
		help: `Lists the connections between exports and imports of stream jobs: all of the namespace, those of one job, or with -pe those of a
			processing element. Routes are computed from exports and imports; they are not stored. An import selects exports by name or by
			properties; filters are evaluated by the exporting process.`,
		setup: func(f *flags) action {
			pe := f.String("pe", "List only the routes of this processing `element`, given by name or UID.")
			return streamList[op.RoutesQuery, op.StreamRoute]{
				data: f.data(), op: op.ListRoutes, none: "No routes", table: routeRows,
				of: func(job string, q op.Query) op.RoutesQuery { return op.RoutesQuery{Job: job, PE: *pe, Query: q} },
			}.run
		},
	}
}

// routeRows is a table of routes, with the import's selector in the column By.
func routeRows(list []op.StreamRoute) [][]string {
	rows := [][]string{{"From", "Output", "To", "Input", "By", "Filter"}}
	for i := range list {
		v := &list[i]
		rows = append(rows, []string{v.From.PE, v.From.Port, v.To.PE, v.To.Port, v.By, or(v.Filter, none)})
	}
	return rows
}
