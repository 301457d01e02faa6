package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// nodeStatusCommand lists nodes or shows one.
func nodeStatusCommand() *command {
	return &command{
		name: "node status", args: "[node]", synopsis: "List nodes, or show the status of one", max: 1,
		example: "node status -allocs",
		help: `Without an argument, lists all nodes. With a node's ID, prefix or name, shows the node: its drivers, events, allocated resources
			and allocations.`,
		setup: func(f *flags) action {
			s := nodeStatus{
				data:    f.data(),
				page:    f.paging(),
				self:    f.Bool("self", "Show the node of the agent that is called."),
				allocs:  f.Bool("allocs", "Include the number of running allocations in the list."),
				os:      f.Bool("os", "Include the operating system in the list."),
				short:   f.Bool("short", "Show only the allocations of a node."),
				quiet:   f.Bool("quiet", "List only full IDs."),
				verbose: f.Bool("verbose", "Show full IDs, absolute times, and all attributes of a node."),
				stats:   f.Bool("stats", "Show what the machine of a node uses of its processors, memory and disks."),
			}
			f.webFlag()
			return s.run
		},
	}
}

// nodeStatus holds the flags of "node status". Other commands about a node use
// its method find and set only self.
type nodeStatus struct {
	data                                           dataFlags
	page                                           pageFlags
	self, allocs, os, short, quiet, verbose, stats *bool
}

// run prints the list or the page of one node.
func (s nodeStatus) run(ctx context.Context, c *call) error {
	if err := s.data.check(c); err != nil {
		return err
	}
	if *s.quiet && (*s.verbose || s.data.wanted()) {
		return c.usagef("-quiet cannot be used with -verbose, -json or -t")
	}
	switch {
	case len(c.args) == 0 && !*s.self && *s.stats:
		return c.usagef("-stats needs a node")
	case len(c.args) == 0 && !*s.self:
		c.web(ctx, "/nodes")
		return s.list(ctx, c)
	case len(c.args) > 0 && *s.self:
		return c.usagef("-self cannot be used with a node")
	}
	n, err := s.find(ctx, c)
	if err != nil {
		return err
	}
	c.web(ctx, uiNode(n.ID))
	if s.data.wanted() {
		return s.data.write(c, n)
	}
	if *s.quiet {
		_, err := fmt.Fprintln(c.Out, n.ID)
		return err
	}
	// -short leaves out the details, not the allocations.
	allocs, _, err := client.Call(ctx, c.client, op.NodeAllocs, op.NodeRef{NodeID: n.ID.String()})
	if err != nil {
		return err
	}
	p := c.page()
	s.overview(c, p, &n)
	if !*s.short {
		s.details(c, p, &n, allocs)
	}
	if *s.stats {
		if err := s.hostStats(ctx, c, p, &n); err != nil {
			return err
		}
	}
	p.heading("Allocations")
	if len(allocs) == 0 {
		p.linef("No allocations placed")
	} else {
		p.table(s.allocRows(allocs))
	}
	if *s.verbose {
		s.offers(p, &n)
		s.attributes(p, "Attributes", n.Attributes)
		s.attributes(p, "Meta", n.Meta)
	}
	return c.show(p)
}

// find returns the node in the argument, or with -self that of the agent that
// is called. An agent without a node is berth.NotFound.
func (s nodeStatus) find(ctx context.Context, c *call) (n op.Node, err error) {
	if !*s.self {
		return c.findNode(ctx, c.args[0])
	}
	self, _, err := client.Call(ctx, c.client, op.ReadSelf, op.Query{})
	if err != nil {
		return n, err
	}
	// Only the agent itself knows which node it is.
	id := self.Stats["client"]["node_id"]
	if id == "" {
		return n, berth.Errorf(berth.NotFound, "the agent at %s is not a node: name a node instead of -self; see \"%s node status\"", c.client.Address(), c.Name)
	}
	return c.findNode(ctx, id)
}

// list prints one page of nodes. Optional columns are inserted where Nomad has
// them.
func (s nodeStatus) list(ctx context.Context, c *call) error {
	in := op.NodesQuery{OS: *s.os}
	if err := s.page.query(c, &in.Query); err != nil {
		return err
	}
	list, meta, err := client.Call(ctx, c.client, op.ListNodes, in)
	if err != nil {
		return err
	}
	if s.data.wanted() {
		return s.data.write(c, list)
	}
	p := c.page()
	switch {
	case *s.quiet:
		for _, n := range list {
			p.linef("%s", n.ID)
		}
		return c.show(p)
	case len(list) == 0:
		p.linef("No nodes found")
		return c.show(p)
	}
	rows := [][]string{{"ID", "Node Pool", "DC", "Name", "Class", "Drain", "Eligibility", "Status"}}
	for _, n := range list {
		rows = append(rows, nodeRow(n, short(n.ID.String(), *s.verbose)))
	}
	if *s.os {
		insert(rows, 5, "OS", func(i int) string { return or(list[i].Attributes["os.name"], none) })
	}
	if *s.verbose {
		insert(rows, 5, "Version", func(i int) string { return or(list[i].Version, none) })
		insert(rows, 5, "Address", func(i int) string { return or(list[i].Address, none) })
	}
	// Counting reads the allocations of all nodes, so it is optional.
	if *s.allocs {
		running, err := s.running(ctx, c)
		if err != nil {
			return err
		}
		insert(rows, len(rows[0]), "Running Allocs", func(i int) string { return strconv.Itoa(running[list[i].ID]) })
	}
	p.table(rows)
	c.paged(p, meta.NextToken)
	return c.show(p)
}

// insert adds a column to rows, whose first row has the names of the columns.
func insert(rows [][]string, at int, name string, value func(i int) string) {
	rows[0] = slices.Insert(rows[0], at, name)
	for i := range rows[1:] {
		rows[i+1] = slices.Insert(rows[i+1], at, value(i))
	}
}

// nodeRow is a row of a table of nodes. id is the ID as that table shows it.
func nodeRow(n op.NodeStub, id string) []string {
	return []string{id, n.NodePool, n.Datacenter, n.Name, or(n.NodeClass, none), strconv.FormatBool(n.Drain), n.SchedulingEligibility, n.Status}
}

// running counts the running allocations of each node.
func (s nodeStatus) running(ctx context.Context, c *call) (map[berth.NodeID]int, error) {
	// Task states make up most of an allocation and are not needed to count.
	no := false
	list, _, err := client.Call(ctx, c.client, op.ListAllocs, op.AllocsQuery{TaskStates: &no, Query: op.Query{
		Namespace: berth.AllNamespaces, Filter: `ClientStatus == "running"`,
	}})
	count := map[berth.NodeID]int{}
	for _, a := range list {
		count[a.NodeID]++
	}
	return count, err
}

// overview adds the rows about the node itself.
func (s nodeStatus) overview(c *call, p *page, n *op.Node) {
	kv := []string{
		"ID", short(n.ID.String(), *s.verbose),
		"Name", n.Name,
		"Node Pool", n.NodePool,
		"Class", or(n.NodeClass, none),
		"DC", n.Datacenter,
	}
	kv = append(kv, drainPairs(n, c.Now())...)
	kv = append(kv, "Eligibility", n.SchedulingEligibility, "Status", n.Status)
	if n.StatusDescription != "" {
		kv = append(kv, "Status Description", n.StatusDescription)
	}
	if len(n.HostVolumes) > 0 {
		kv = append(kv, "Host Volumes", strings.Join(slices.Sorted(maps.Keys(n.HostVolumes)), ","))
	}
	if len(n.HostNetworks) > 0 {
		kv = append(kv, "Host Networks", strings.Join(slices.Sorted(maps.Keys(n.HostNetworks)), ","))
	}
	p.pairs(kv...)
}

// details adds drivers, events and resources.
func (s nodeStatus) details(c *call, p *page, n *op.Node, allocs []op.Alloc) {
	p.heading("Drivers")
	rows := [][]string{{"Driver", "Detected", "Healthy"}}
	if *s.verbose {
		rows[0] = append(rows[0], "Message", "Time")
	}
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		d := n.Drivers[name]
		row := []string{name, strconv.FormatBool(d.Detected), strconv.FormatBool(d.Healthy)}
		if *s.verbose {
			row = append(row, or(d.HealthDescription, none), stamp(d.UpdateTime))
		}
		rows = append(rows, row)
	}
	p.table(rows)
	s.events(p, n)
	if n.NodeResources != nil {
		p.heading("Allocated Resources")
		p.table(allocatedRows(n.Node, allocs))
	}
}

// offers lists the host volumes and host networks of a node.
func (s nodeStatus) offers(p *page, n *op.Node) {
	if len(n.HostVolumes) > 0 {
		p.heading("Host Volumes")
		rows := [][]string{{"Name", "ReadOnly", "Source"}}
		for _, name := range slices.Sorted(maps.Keys(n.HostVolumes)) {
			v := n.HostVolumes[name]
			rows = append(rows, []string{name, strconv.FormatBool(v.ReadOnly), v.Path})
		}
		p.table(rows)
	}
	if len(n.HostNetworks) > 0 {
		p.heading("Host Networks")
		rows := [][]string{{"Name", "CIDR", "Interface", "ReservedPorts"}}
		for _, name := range slices.Sorted(maps.Keys(n.HostNetworks)) {
			v := n.HostNetworks[name]
			rows = append(rows, []string{name, or(v.CIDR, none), or(v.Interface, none), or(v.ReservedPorts, none)})
		}
		p.table(rows)
	}
}

// events lists the events of a node, newest first.
func (s nodeStatus) events(p *page, n *op.Node) {
	p.heading("Node Events")
	if len(n.Events) == 0 {
		p.linef("No events")
		return
	}
	rows := [][]string{{"Time", "Subsystem", "Message"}}
	if *s.verbose {
		rows[0] = append(rows[0], "Details")
	}
	events := slices.Clone(n.Events)
	slices.SortStableFunc(events, func(a, b berth.NodeEvent) int {
		return cmp.Or(b.Timestamp.Compare(a.Timestamp), cmp.Compare(b.CreateIndex, a.CreateIndex))
	})
	for _, e := range events {
		// An event about a driver names the driver.
		subsystem := e.Subsystem
		if d := e.Details["driver"]; d != "" && subsystem == berth.NodeEventDriver {
			subsystem += ": " + d
		}
		row := []string{stamp(e.Timestamp), subsystem, e.Message}
		if *s.verbose {
			row = append(row, or(details(e.Details), none))
		}
		rows = append(rows, row)
	}
	p.table(rows)
}

// details joins the pairs of a map, sorted by key, on one line.
func details(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+": "+m[k])
	}
	return strings.Join(out, ", ")
}

// allocatedRows sums up the resources of a node's allocations that have not
// ended, against the node's capacity.
func allocatedRows(n *berth.Node, allocs []op.Alloc) [][]string {
	var used berth.Ask
	for _, a := range allocs {
		if a.ClientStatus.Ended() || a.AllocatedResources == nil {
			continue
		}
		used.DiskMB += a.AllocatedResources.Shared.DiskMB
		for _, t := range a.AllocatedResources.Tasks {
			used.CPU += t.Cpu.CpuShares
			used.MemoryMB += t.Memory.MemoryMB
		}
	}
	// What is reserved for the system is not part of the capacity.
	capacity := n.Room()
	return [][]string{
		{"CPU", "Memory", "Disk"},
		{fmt.Sprintf("%d/%d MHz", used.CPU, capacity.CPU), mib(used.MemoryMB) + "/" + mib(capacity.MemoryMB), mib(used.DiskMB) + "/" + mib(capacity.DiskMB)},
	}
}

// allocRows is a table of a node's allocations, newest first.
func (s nodeStatus) allocRows(list []op.Alloc) [][]string {
	slices.SortStableFunc(list, func(a, b op.Alloc) int {
		return cmp.Or(cmp.Compare(b.CreateIndex, a.CreateIndex), strings.Compare(a.Name, b.Name))
	})
	rows := [][]string{{"ID", "Eval ID", "Job ID", "Task Group", "Desired Status", "Client Status"}}
	for _, a := range list {
		rows = append(rows, []string{
			short(a.ID.String(), *s.verbose), short(a.EvalID.String(), *s.verbose), string(a.JobID), a.TaskGroup,
			a.DesiredStatus.String(), a.ClientStatus.String(),
		})
	}
	return rows
}

// attributes adds a section with a map, sorted by key, unless it is empty.
func (s nodeStatus) attributes(p *page, heading string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	p.heading(heading)
	var kv []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		kv = append(kv, k, m[k])
	}
	p.pairs(kv...)
}
