package admit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/expr"
	"berth/internal/pattern"
)

// propertyName matches the names that an expression can use.
var propertyName = pattern.New(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// streamPort checks that s names an output, or an input, of a group.
func (c *checker) streamPort(at string, j *berth.Job, s string, output bool) bool {
	// what is for the messages only.
	what := "input"
	if output {
		what = "output"
	}
	group, port := berth.SplitPort(s)
	if group == "" || port == "" {
		c.addf(at, "must be a group and its %s, such as \"group.%s\", got %q", what, what, berth.Clip(s, 64))
		return false
	}
	g := j.Group(group)
	if g == nil {
		c.noGroup(at, j, group)
		return false
	}
	var names []string
	if output {
		for _, o := range g.Stream.Outputs {
			names = append(names, o.Name)
		}
	} else {
		for _, in := range g.Stream.Inputs {
			names = append(names, in.Name)
		}
	}
	switch {
	case slices.Contains(names, port):
		return true
	case len(names) == 0:
		c.addf(at, "group %q has no %s", berth.Clip(group, 64), what)
	default:
		c.addf(at, "group %q has no %s %q: want %s", berth.Clip(group, 64), what, berth.Clip(port, 64), berth.Clip(strings.Join(names, ", "), 256))
	}
	return false
}

// connections checks the streams inside the job.
func (c *checker) connections(at string, j *berth.Job, widths map[string]int) {
	type join struct{ from, to string }
	joined, spread, all := map[join]string{}, map[string]*berth.StreamEdge{}, 0
	for i := range j.Stream.Streams {
		s := &j.Stream.Streams[i]
		sat := fmt.Sprintf("%s.stream[%s]", at, berth.Clip(s.Name, 64))
		c.oneOf(sat+".distribution", s.Distribution, berth.DistributionBroadcast, berth.DistributionRoundRobin, berth.DistributionHash)
		known := c.streamPort(sat+".from", j, s.From, true)
		// All streams of one output share its distribution.
		if first := spread[s.From]; first == nil {
			spread[s.From] = s
		} else if first.Distribution != s.Distribution {
			c.addf(sat+".distribution", "must be that of stream %q, which has the same output, %q, got %q", berth.Clip(first.Name, 64), berth.Clip(first.Distribution, 64), berth.Clip(s.Distribution, 64))
		}
		if len(s.To) == 0 {
			c.addf(sat+".to", "is missing: want at least one input")
		}
		for _, to := range s.To {
			if !c.streamPort(sat+".to", j, to, false) || !known {
				continue
			}
			if other, twice := joined[join{s.From, to}]; twice {
				c.addf(sat+".to", "%q is already connected to %s by stream %q", berth.Clip(to, 64), berth.Clip(s.From, 64), berth.Clip(other, 64))
				continue
			}
			joined[join{s.From, to}] = s.Name
			// Within a parallel region each channel connects to
			// itself only; otherwise every element connects to
			// every one.
			a, _ := berth.SplitPort(s.From)
			b, _ := berth.SplitPort(to)
			n := widths[a]
			if r := j.Stream.Region(a); r == nil || !slices.Contains(r.Groups, b) {
				n *= widths[b]
			}
			all += n
		}
	}
	if all > MaxConnections {
		c.addf(at+".stream", "streams can connect at most %d pairs of ports, got %d", MaxConnections, all)
	}
}

// crossings checks the exports and imports of the job.
func (c *checker) crossings(at string, j *berth.Job, widths map[string]int) {
	exports, imports := 0, 0
	for i := range j.Stream.Exports {
		x := &j.Stream.Exports[i]
		xat := fmt.Sprintf("%s.export[%s]", at, berth.Clip(x.Name, 64))
		c.streamPort(xat+".from", j, x.From, true)
		c.oneOf(xat+".congestion", x.Congestion, berth.CongestionWait, berth.CongestionDrop)
		c.line(xat+".stream_id", x.StreamID, berth.MaxNameLen)
		switch {
		case x.StreamID != "" && len(x.Properties) > 0:
			c.addf(xat+".properties", "cannot be combined with stream_id")
		case x.StreamID == "" && len(x.Properties) == 0:
			c.addf(xat, "must have stream_id or properties")
		}
		c.problems = append(c.problems, CheckProperties(xat+".properties", x.Properties)...)
		group, _ := berth.SplitPort(x.From)
		exports += widths[group]
	}
	for i := range j.Stream.Imports {
		m := &j.Stream.Imports[i]
		c.imported(fmt.Sprintf("%s.import[%s]", at, berth.Clip(m.Name, 64)), j, m)
		group, _ := berth.SplitPort(m.Into)
		imports += widths[group]
	}
	if n := max(exports, imports); n > maxStreamPorts {
		c.addf(at, "at most %d exports or imports are allowed, counted per processing element, got %d", maxStreamPorts, n)
	}
}

// imported checks an import: it selects exports by stream_id, by a
// subscription, or by both, and can filter what arrives.
func (c *checker) imported(at string, j *berth.Job, m *berth.ImportSpec) {
	c.streamPort(at+".into", j, m.Into, false)
	c.line(at+".application", m.Application, berth.MaxJobIDLen)
	c.line(at+".scope", m.Scope, berth.MaxNameLen)
	c.line(at+".stream_id", m.StreamID, berth.MaxNameLen)
	if m.StreamID == "" && m.Subscription == "" {
		c.addf(at, "must have stream_id or subscription")
	}
	if m.Application != "" && m.StreamID == "" {
		c.addf(at+".application", "needs stream_id; a subscription selects exports by their properties")
	}
	c.problems = append(c.problems, CheckExpression(at+".subscription", m.Subscription)...)
	c.problems = append(c.problems, CheckExpression(at+".filter", m.Filter)...)
}

// CheckExpression returns what is wrong with a subscription or filter. The
// empty text is valid.
func CheckExpression(at, text string) (out berth.Problems) {
	if text == "" {
		return nil
	}
	if _, err := expr.Parse(text); err != nil {
		out.Addf(at, "%q: %v", berth.Clip(text, 128), err)
	}
	return out
}

// CheckProperties returns what is wrong with the properties of an export.
func CheckProperties(at string, properties map[string]any) (out berth.Problems) {
	if n := len(properties); n > maxProperties {
		out.Addf(at, "at most %d properties are allowed, got %d", maxProperties, n)
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		pat := fmt.Sprintf("%s[%s]", at, berth.Clip(name, 64))
		if !propertyName.MatchString(name) || name == "true" || name == "false" || name == "in" {
			out.Addf(pat, "the name must be 1 to 64 letters, digits or _, must not begin with a digit, and must not be true, false or in")
		}
		v := properties[name]
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		first := ""
		for _, item := range list {
			switch kind := propertyKind(item); {
			case kind == "":
				out.Addf(pat, "must be a bool, a number, a string or a list of one of these, got %s", berth.Clip(fmt.Sprint(item), 64))
			case first != "" && kind != first:
				out.Addf(pat, "must be a list of one kind, got a %s and a %s", first, kind)
			default:
				first = kind
				continue
			}
			break
		}
	}
	return out
}

// propertyKind returns the kind of a value, or "" if it cannot be a property.
func propertyKind(v any) string {
	switch v.(type) {
	case bool:
		return "boolean"
	case int64, float64:
		return "number"
	case string:
		return "string"
	}
	return ""
}
