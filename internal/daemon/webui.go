package daemon

import (
	"strings"

	"berth/internal/ui"
)

// webUI is how the web UI is served: see the ui block.
func (d *Daemon) webUI() ui.Options {
	c := d.conf.UI
	o := ui.Options{
		Off: !c.Enabled, Policy: map[string]string{},
		Label: ui.Label{Text: c.Label.Text, Background: c.Label.Background, Color: c.Label.Color},
	}
	for directive, sources := range map[string][]string{
		"connect-src": c.Policy.Connect, "default-src": c.Policy.Default, "form-action": c.Policy.Form, "frame-ancestors": c.Policy.Frames,
		"img-src": c.Policy.Images, "script-src": c.Policy.Scripts, "style-src": c.Policy.Styles,
	} {
		if len(sources) > 0 {
			o.Policy[directive] = strings.Join(sources, " ")
		}
	}
	return o
}
