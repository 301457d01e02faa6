package cli

import (
	"context"
	"errors"
	"io/fs"
	"strconv"

	"berth"
	"berth/internal/audit"
)

// auditVerifyCommand checks the chain of an audit log.
func auditVerifyCommand() *command {
	return &command{
		name: "operator audit verify", args: "<file>...", synopsis: "Verify that an audit log is complete and unchanged", min: 1, max: -1, local: true,
		example: "operator audit verify audit-00000000000000001200.log audit.log",
		help: `Checks the files of an audit log, given from the oldest to the newest: that no line was changed, removed or put in. It prints
			the numbers of the first and last line, and the hash of the last one. Anyone who can write the file can make another chain, so
			compare the hash with one that you kept elsewhere.`,
		setup: func(f *flags) action {
			d := f.data()
			return func(_ context.Context, c *call) error {
				if err := d.check(c); err != nil {
					return err
				}
				files := make([]string, len(c.args))
				for i, name := range c.args {
					files[i] = c.path(name)
				}
				chain, err := audit.Verify(files...)
				if e, ok := errors.AsType[*fs.PathError](err); ok {
					return berth.Errorf(berth.Invalid, "cannot read the audit log: %w", e)
				}
				if err != nil {
					return err
				}
				if d.wanted() {
					return d.write(c, chain)
				}
				before := chain.Prev
				if before == "" {
					before = "nothing: this is the beginning of the log"
				}
				p := c.page()
				p.pairs("Lines", strconv.Itoa(chain.Lines), "First", strconv.FormatUint(chain.First, 10), "Last", strconv.FormatUint(chain.Last, 10),
					"Follows", before, "Hash", chain.Hash)
				return c.show(p)
			}
		},
	}
}
