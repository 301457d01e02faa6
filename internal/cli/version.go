package cli

import (
	"context"
	"runtime"
	"runtime/debug"

	"berth/internal/failpoint"
)

// Version is the version of Berth. NomadVersion is the Nomad release whose
// interfaces it serves; ${attr.nomad.version} in a job evaluates to it.
const (
	Version      = "0.1.0-dev"
	NomadVersion = "2.0.5"
)

// versionCommand prints the version. Called as nomad, it first prints the Nomad
// version in the form that scripts which parse "nomad version" expect, and
// Berth's own version last.
func versionCommand() *command {
	return &command{
		name: "version", synopsis: "Show the version", local: true,
		example: "version -verbose",
		help: `Prints the version, and the date and revision of the source if the build recorded them. Called as nomad, the first line is the
			version of Nomad whose commands and API the program provides, as scripts expect, and the last line is its own version.`,
		setup: func(f *flags) action {
			verbose := f.Bool("verbose", "Print the Go version and the platform as well.")
			return func(_ context.Context, c *call) error {
				p := c.page()
				own := "Berth v" + Version
				if c.Name == nomadName {
					p.linef("Nomad v%s", NomadVersion)
				} else {
					p.linef("%s", own)
				}
				// Builds outside a repository have neither.
				revision, date := source()
				if date != "" {
					p.linef("BuildDate %s", date)
				}
				if revision != "" {
					p.linef("Revision %s", revision)
				}
				if *verbose {
					p.linef("Go %s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
				}
				if failpoint.Enabled {
					p.linef("This build has fault points: it is for tests only")
				}
				if c.Name == nomadName {
					p.linef("%s, not Nomad", own)
				}
				return c.show(p)
			}
		},
	}
}

// source is the revision and date of the source, as far as the build recorded
// them.
func source() (revision, date string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", ""
	}
	modified := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.time":
			date = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	// The revision alone would name a source without the local changes.
	if modified && revision != "" {
		revision += "+CHANGES"
	}
	return revision, date
}
