package admit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"berth"
	"berth/internal/expr"
)

// propertyName is what an expression can name.
var propertyName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// streamPort checks that a text names an output, or an input, of a group.
func (c *checker) streamPort(at string, j *berth.Job, s string, output bool) bool {
	what := "input"
	if output {
		what = "output"
	}
	group, port := berth.SplitPort(s)
	if group == "" || port == "" {
		c.addf(at, "%q is not a group and its %s, such as \"group.%s\"", berth.Clip(s, 64), what, what)
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
		c.addf(at, "group %q has no %s %q; it has %s", berth.Clip(group, 64), what, berth.Clip(port, 64), berth.Clip(strings.Join(names, ", "), 256))
	}
	return false
}

// connections checks the streams within the job.
func (c *checker) connections(at string, j *berth.Job, widths map[string]int) {
	type join struct{ from, to string }
	joined, spread, all := map[join]string{}, map[string]*berth.StreamEdge{}, 0
	for i := range j.Stream.Streams {
		s := &j.Stream.Streams[i]
		sat := fmt.Sprintf("%s.stream[%s]", at, berth.Clip(s.Name, 64))
		c.oneOf(sat+".distribution", s.Distribution, berth.DistributionBroadcast, berth.DistributionRoundRobin, berth.DistributionHash)
		known := c.streamPort(sat+".from", j, s.From, true)
		if first := spread[s.From]; first == nil {
			spread[s.From] = s
		} else if first.Distribution != s.Distribution {
			c.addf(sat+".distribution", "%q is not that of stream %q, %q, which has the same output", berth.Clip(s.Distribution, 64), berth.Clip(first.Name, 64), berth.Clip(first.Distribution, 64))
		}
		if len(s.To) == 0 {
			c.addf(sat+".to", "is missing; at least one input is wanted")
		}
		for _, to := range s.To {
			if !c.streamPort(sat+".to", j, to, false) || !known {
				continue
			}
			if other, twice := joined[join{s.From, to}]; twice {
				c.addf(sat+".to", "%q gets %s already, by stream %q", berth.Clip(to, 64), berth.Clip(s.From, 64), berth.Clip(other, 64))
				continue
			}
			joined[join{s.From, to}] = s.Name
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
		c.addf(at+".stream", "the streams join %d pairs of ports; allowed are %d", all, MaxConnections)
	}
}

// crossings checks the streams that leave the job or come into it.
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
			c.addf(xat+".properties", "stands beside stream_id; a stream is exported by one of the two")
		case x.StreamID == "" && len(x.Properties) == 0:
			c.addf(xat, "has neither stream_id nor properties; one of them is wanted")
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
		c.addf(at, "%d exports or imports, counted for each processing element, are too many; allowed are %d", n, maxStreamPorts)
	}
}

func (c *checker) imported(at string, j *berth.Job, m *berth.ImportSpec) {
	c.streamPort(at+".into", j, m.Into, false)
	c.line(at+".application", m.Application, berth.MaxJobIDLen)
	c.line(at+".scope", m.Scope, berth.MaxNameLen)
	c.line(at+".stream_id", m.StreamID, berth.MaxNameLen)
	if m.StreamID == "" && m.Subscription == "" {
		c.addf(at, "has neither stream_id nor subscription; one of them is wanted")
	}
	if m.Application != "" && m.StreamID == "" {
		c.addf(at+".application", "is for an import by stream_id; a subscription is about the properties of exports")
	}
	c.problems = append(c.problems, CheckExpression(at+".subscription", m.Subscription)...)
	c.problems = append(c.problems, CheckExpression(at+".filter", m.Filter)...)
}

// CheckExpression returns what is wrong with a subscription or filter; none
// (the empty text) is right.
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
		out.Addf(at, "%d are too many; allowed are %d", n, maxProperties)
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		pat := fmt.Sprintf("%s[%s]", at, berth.Clip(name, 64))
		if !propertyName.MatchString(name) || name == "true" || name == "false" || name == "in" {
			out.Addf(pat, "no expression can name it: allowed are letters, digits and _, up to 64, that begin with no digit and are none of true, false and in")
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
				out.Addf(pat, "%s is no property; allowed are true and false, numbers, strings, and lists of one of them", berth.Clip(fmt.Sprint(item), 64))
			case first != "" && kind != first:
				out.Addf(pat, "is a list of a %s and a %s; a list holds one kind", first, kind)
			default:
				first = kind
				continue
			}
			break
		}
	}
	return out
}

// propertyKind names the kind of one value, "" if it can be none.
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
