package cli

import (
	"context"
	"fmt"
	"os"

	"berth/internal/config"
)

// configValidateCommand checks configuration files without starting an agent.
func configValidateCommand() *command {
	return &command{
		name: "config validate", args: "<path>...", synopsis: "Check agent configuration files", min: 1, max: -1, local: true,
		example: "config validate /etc/berth.d",
		help: `Checks configuration files, and directories of them, as "agent" would read them together with -config. Reports all problems with
			file and line, and warnings about what is allowed but risky. No agent is started.

			The exit code is 0 if an agent could start with this configuration, and 1 if it could not.`,
		setup: func(*flags) action {
			return func(_ context.Context, c *call) error {
				paths := make([]string, len(c.args))
				for i, p := range c.args {
					paths[i] = c.path(p)
				}
				conf, err := config.Load(paths, config.Overrides{})
				if err != nil {
					return err
				}
				if conf.TempData {
					defer os.RemoveAll(conf.DataDir)
				}
				for _, w := range conf.Warnings {
					fmt.Fprintln(c.Err, "Warning: "+clean(w))
				}
				p := c.page()
				p.linef("Configuration is valid!")
				return c.show(p)
			}
		},
	}
}
