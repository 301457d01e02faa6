package cli

import (
	"context"
	"iter"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// monitorCommand streams the log of an agent.
func monitorCommand() *command {
	return &command{
		name: "monitor", synopsis: "Follow the log of an agent",
		example: "monitor -log-level warn -server-id leader",
		help: `Prints what an agent logs from now on, until it is interrupted: the agent that is called, that of a node with -node-id, or a
			server with -server-id. The level applies to this command only, and may be below that of the agent's own log.

			"monitor export" prints the log file of an agent.`,
		setup: func(f *flags) action {
			t := monitorTarget(f)
			level := f.FlagSet.String("log-level", "info", "The lowest `level` to print: trace, debug, info, warn or error.")
			location := f.Bool("log-include-location", "Print the source file and line with each line.")
			asJSON := f.Bool("json", "Print lines as JSON objects.")
			return func(ctx context.Context, c *call) error {
				in := op.MonitorQuery{LogLevel: strings.ToLower(*level), LogIncludeLocation: *location, LogJSON: *asJSON}
				var err error
				if in.NodeID, in.ServerID, err = t.resolve(ctx, c); err != nil {
					return err
				}
				err = printFrames(c, client.Stream(ctx, c.client, op.Monitor, in))
				if ctx.Err() != nil {
					return nil // an interrupt is how it ends
				}
				return err
			}
		},
	}
}

// monitorExportCommand prints the log file of an agent.
func monitorExportCommand() *command {
	return &command{
		name: "monitor export", synopsis: "Print what an agent has logged before",
		example: "monitor export -on-disk -node-id 5c1b",
		help: `Prints what an agent has logged: its log file with -on-disk, which needs log_file in its configuration, or entries of the
			journal of its machine with -service-name. Without -node-id and -server-id it is the agent that is called.`,
		setup: func(f *flags) action {
			t := monitorTarget(f)
			disk := f.Bool("on-disk", "Print the log file.")
			service := f.String("service-name", "Print the journal of this systemd `unit`, where the agent supports it.")
			since := f.String("logs-since", "With -service-name: entries that are not older than this `duration`, such as 72h.")
			follow := f.Bool("follow", "With -service-name: print new entries too, until it is interrupted.")
			return func(ctx context.Context, c *call) error {
				switch {
				case *disk && *service != "":
					return c.usagef("-on-disk and -service-name cannot be used together")
				case !*disk && *service == "":
					return c.usagef("one of -on-disk and -service-name is required")
				case *disk && (*since != "" || *follow):
					return c.usagef("-logs-since and -follow need -service-name")
				}
				in := op.ExportQuery{OnDisk: *disk, ServiceName: *service, LogsSince: *since, Follow: *follow}
				var err error
				if in.NodeID, in.ServerID, err = t.resolve(ctx, c); err != nil {
					return err
				}
				err = printFrames(c, client.Stream(ctx, c.client, op.MonitorExport, in))
				if *follow && ctx.Err() != nil {
					return nil
				}
				return err
			}
		},
	}
}

// whichAgent holds the flags that name an agent.
type whichAgent struct{ node, server *string }

// monitorTarget declares the flags that name an agent.
func monitorTarget(f *flags) whichAgent {
	return whichAgent{
		node:   f.String("node-id", "Ask the agent of this `node`, given by ID, unique prefix or name."),
		server: f.String("server-id", "Ask the `server` with this name, or leader."),
	}
}

// resolve returns the full ID of the node and the name of the server; at most one
// is not empty.
func (t whichAgent) resolve(ctx context.Context, c *call) (node, server string, err error) {
	if *t.node != "" && *t.server != "" {
		return "", "", c.usagef("-node-id and -server-id cannot be used together")
	}
	if *t.node == "" {
		return "", *t.server, nil
	}
	n, err := c.findNode(ctx, *t.node)
	if err != nil {
		return "", "", err
	}
	return n.ID.String(), "", nil
}

// printFrames prints the data of a stream as it comes.
func printFrames(c *call, frames iter.Seq2[*op.StreamFrame, error]) error {
	for f, err := range frames {
		if err != nil {
			return err
		}
		if _, err := c.Out.Write(f.Data); err != nil {
			return berth.Errorf(berth.Unavailable, "write the log: %w", err)
		}
	}
	return nil
}
