package cli

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// serviceListCommand lists services by name, for one namespace or all.
func serviceListCommand() *command {
	return &command{
		name: "service list", synopsis: "List registered services",
		example: "service list",
		help:    "Lists the services that have an instance, with the tags of all their instances.",
		setup: func(f *flags) action {
			data := f.data()
			name := f.String("name", "List only the service with this `name`.")
			read := func(ctx context.Context, c *call) ([]op.ServiceList, error) {
				list, _, err := client.Call(ctx, c.client, op.ListServices, op.Query{})
				if *name != "" {
					list = onlyService(list, *name)
				}
				return list, err
			}
			return answer(data, read, func(_ *call, p *page, list []op.ServiceList) {
				if len(list) == 0 {
					p.linef("No service registrations found")
					return
				}
				// Namespaces are shown only where there are several.
				every := len(list) > 1
				head := []string{"Service Name", "Tags"}
				if every {
					head = append([]string{"Namespace"}, head...)
				}
				rows := [][]string{head}
				for _, ns := range list {
					for _, s := range ns.Services {
						row := []string{s.ServiceName, "[" + strings.Join(s.Tags, ",") + "]"}
						if every {
							row = append([]string{ns.Namespace}, row...)
						}
						rows = append(rows, row)
					}
				}
				p.table(rows)
			})
		},
	}
}

// onlyService keeps only the service of that name.
func onlyService(list []op.ServiceList, name string) []op.ServiceList {
	out := []op.ServiceList{}
	for _, ns := range list {
		for _, s := range ns.Services {
			if s.ServiceName == name {
				out = append(out, op.ServiceList{Namespace: ns.Namespace, Services: []op.ServiceStub{s}})
			}
		}
	}
	return out
}

// serviceInfoCommand lists the instances of one service.
func serviceInfoCommand() *command {
	return &command{
		name: "service info", args: "<service>", synopsis: "Show the instances of a service", min: 1, max: 1,
		example: "service info web",
		help:    "Lists the instances of a service with their address, job and node.",
		setup: func(f *flags) action {
			l := f.list()
			verbose := f.Bool("verbose", "Show full IDs and all details of each instance.")
			return func(ctx context.Context, c *call) error {
				in := op.ServiceQuery{ServiceName: c.args[0]}
				return showList(ctx, c, l, op.ReadService, &in, &in.Query, "No service registrations found", func(p *page, list []berth.ServiceRegistration) {
					if *verbose {
						for i := range list {
							serviceDetails(p, &list[i])
						}
						return
					}
					rows := [][]string{{"Job ID", "Address", "Tags", "Node ID", "Alloc ID"}}
					for i := range list {
						r := &list[i]
						rows = append(rows, []string{string(r.JobID), serviceAddress(r), "[" + strings.Join(r.Tags, ",") + "]", r.NodeID.Short(), r.AllocID.Short()})
					}
					p.table(rows)
				})
			}
		},
	}
}

// serviceAddress is host:port, or only the host for a service without a port.
func serviceAddress(r *berth.ServiceRegistration) string {
	if r.Port == 0 {
		return r.Address
	}
	return net.JoinHostPort(r.Address, strconv.Itoa(r.Port))
}

// serviceDetails adds a block with everything about one instance.
func serviceDetails(p *page, r *berth.ServiceRegistration) {
	p.gap()
	p.pairs("ID", r.ID, "Service Name", r.ServiceName, "Namespace", r.Namespace, "Job ID", string(r.JobID), "Alloc ID", r.AllocID.String(),
		"Node ID", r.NodeID.String(), "Datacenter", r.Datacenter, "Address", serviceAddress(r), "Tags", "["+strings.Join(r.Tags, ",")+"]")
}

// serviceDeleteCommand deletes a registration that its agent cannot delete.
func serviceDeleteCommand() *command {
	return &command{
		name: "service delete", args: "<service> <id>", synopsis: "Delete a service registration", min: 2, max: 2, list: "service list",
		example: "service delete web _nomad-task-0af996ed-web",
		help: `Deletes one instance of a service, by the ID shown by "service info -verbose". Use it for instances whose agent is gone: an agent
			that is alive registers its running tasks again at its next update.`,
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				if _, _, err := client.Call(ctx, c.client, op.RemoveService, op.DeleteService{ServiceName: c.args[0], ServiceID: c.args[1]}); err != nil {
					return err
				}
				_, err := fmt.Fprintln(c.Out, "Successfully deleted service registration")
				return err
			}
		},
	}
}
