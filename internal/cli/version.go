package cli

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Version is the version of this program, and NomadVersion that of the release
// of Nomad whose interfaces it serves: what a job that asks for
// ${attr.nomad.version} is answered.
const (
	Version      = "0.1.0-dev"
	NomadVersion = "2.0.5"
)

// versionCommand tells the version. Called as nomad, its first lines are in
// the form that scripts which parse "nomad version" expect, with the version
// of Nomad that this program stands in for; the last line says what it is.
func versionCommand() *command {
	return &command{
		name: "version", synopsis: "Show the version of this program", local: true,
		help: "Shows the version of the program, and the date and revision of the source it was built from where the build knows them. Called as nomad, the first line names the release of Nomad whose commands and API it offers, as scripts that look there expect, and the last line its own version.",
		setup: func(*flags) action {
			return func(_ context.Context, c *call) error {
				p := c.page()
				own := "Berth v" + Version
				if c.Name == nomadName {
					p.linef("Nomad v%s", NomadVersion)
				} else {
					p.linef("%s", own)
				}
				revision, date := source()
				if date != "" {
					p.linef("BuildDate %s", date)
				}
				if revision != "" {
					p.linef("Revision %s", revision)
				}
				if c.Name == nomadName {
					p.linef("%s, not Nomad", own)
				}
				return c.show(p)
			}
		},
	}
}

// source is what the program was built from, as far as the build recorded it.
func source() (revision, date string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", ""
	}
	changed := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.time":
			date = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if changed && revision != "" {
		revision = fmt.Sprint(revision, "+CHANGES")
	}
	return revision, date
}
