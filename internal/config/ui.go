package config

import (
	"strings"
	"unicode/utf8"

	"berth/internal/pattern"
)

// UI configures the web UI.
type UI struct {
	Enabled bool
	Label   UILabel
	Policy  UIPolicy
}

// UILabel is a text at the top of every page, such as "Production".
type UILabel struct {
	Text       string // "" shows none
	Background string // a color of CSS; "" is that of the theme
	Color      string
}

// UIPolicy replaces directives of the pages' Content-Security-Policy. An empty
// list keeps what the UI has of itself.
type UIPolicy struct {
	Connect, Default, Form, Frames, Images, Scripts, Styles []string
}

// uiKeys are the keys of the ui block.
var uiKeys = table{
	"enabled": flag(func(c *Config) *bool { return &c.UI.Enabled }),
	"label": block(table{
		"text":             text(func(c *Config) *string { return &c.UI.Label.Text }),
		"background_color": text(func(c *Config) *string { return &c.UI.Label.Background }),
		"text_color":       text(func(c *Config) *string { return &c.UI.Label.Color }),
	}),
	"content_security_policy": block(table{
		"connect_src":     texts(func(c *Config) *[]string { return &c.UI.Policy.Connect }),
		"default_src":     texts(func(c *Config) *[]string { return &c.UI.Policy.Default }),
		"form_action":     texts(func(c *Config) *[]string { return &c.UI.Policy.Form }),
		"frame_ancestors": texts(func(c *Config) *[]string { return &c.UI.Policy.Frames }),
		"img_src":         texts(func(c *Config) *[]string { return &c.UI.Policy.Images }),
		"script_src":      texts(func(c *Config) *[]string { return &c.UI.Policy.Scripts }),
		"style_src":       texts(func(c *Config) *[]string { return &c.UI.Policy.Styles }),
	}),
}

// unsupportedUI are such keys of the ui block.
var unsupportedUI = table{
	"consul":         empty("linking to Consul"),
	"vault":          empty("linking to Vault"),
	"show_cli_hints": only(true),
}

var (
	// colorForm is a color of CSS: #1f6feb or a name.
	colorForm = pattern.New(`^(#[0-9a-fA-F]{3,8}|[a-zA-Z]{1,30})?$`)
	// sourceForm is a source of a Content-Security-Policy. Others could end the
	// directive and begin one.
	sourceForm = pattern.New(`^[!-+\--:<-~]{1,200}$`)
)

// maxLabel is the most characters of a label.
const maxLabel = 100

// ui checks the ui block.
func (d *decoder) ui() {
	l, p := &d.to.UI.Label, &d.to.UI.Policy
	if n := utf8.RuneCountInString(l.Text); n > maxLabel {
		d.fail("ui.label.text", "must have at most %d characters, got %d", maxLabel, n)
	}
	for key, color := range map[string]string{"background_color": l.Background, "text_color": l.Color} {
		if !colorForm.MatchString(color) {
			d.fail("ui.label."+key, "%.60q must be a color such as #1f6feb or orange", color)
		}
	}
	for key, sources := range map[string][]string{
		"connect_src": p.Connect, "default_src": p.Default, "form_action": p.Form, "frame_ancestors": p.Frames, "img_src": p.Images, "script_src": p.Scripts, "style_src": p.Styles,
	} {
		for _, s := range sources {
			switch at := "ui.content_security_policy." + key; {
			case !sourceForm.MatchString(s):
				d.fail(at, "%.60q must be a source such as 'self' or https://example.com, without spaces, commas and semicolons", s)
			case key == "script_src" && (s == "*" || strings.HasPrefix(s, "'unsafe-") || strings.HasSuffix(s, ":")):
				d.fail(at, "%s is refused: texts of jobs could then run as scripts", s)
			}
		}
	}
}
