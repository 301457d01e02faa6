package condition

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"berth"
)

// deviceIDs is the target that stands for the IDs of a group's devices.
const deviceIDs = "${device.ids}"

// DeviceMeets reports whether a group of devices meets a constraint or an
// affinity. A condition on device IDs is about single devices; see
// [InstanceMeets].
func DeviceMeets(d *berth.NodeDeviceResource, left, operand, right string) bool {
	if left == deviceIDs || right == deviceIDs {
		return true
	}
	l, hasL := resolve(d, left)
	r, hasR := resolve(d, right)
	return meetsAttribute(operand, l, hasL, r, hasR)
}

// InstanceMeets reports whether a condition allows one device of the group to
// be assigned. A set operator on ${device.ids} lists the allowed devices; any
// other operator is applied to the device's ID. Conditions on anything else are
// not about single devices and hold here.
func InstanceMeets(id, left, operand, right string) bool {
	if right == deviceIDs {
		left, right = right, left
	}
	if left != deviceIDs {
		return true
	}
	switch operand {
	case berth.OpSetContains, berth.OpSetContainsAll, berth.OpSetContainsAny:
		return slices.Contains(splitSet(right), id)
	}
	return Meets(operand, id, true, right, true)
}

// MeetsIDs reports whether the devices of these IDs meet a condition on
// ${device.ids} together: all that set_contains lists are among them.
func MeetsIDs(ids []string, left, operand, right string) bool {
	if right == deviceIDs {
		left, right = right, left
	}
	if left != deviceIDs || operand != berth.OpSetContains && operand != berth.OpSetContainsAll {
		return true
	}
	for _, want := range splitSet(right) {
		if !slices.Contains(ids, want) {
			return false
		}
	}
	return true
}

// resolve returns the value of a condition's target on the group.
func resolve(d *berth.NodeDeviceResource, target string) (attribute, bool) {
	inner, ok := strings.CutPrefix(target, "${device.")
	if !ok {
		return parseAttribute(target), true
	}
	inner = strings.TrimSuffix(inner, "}")
	switch inner {
	case "vendor":
		return attribute{text: d.Vendor}, true
	case "type":
		return attribute{text: d.Type}, true
	case "model":
		return attribute{text: d.Name}, true
	}
	key, ok := strings.CutPrefix(inner, "attr.")
	if !ok {
		return attribute{}, false
	}
	return attributeOf(d.Attributes[key])
}

// attribute is a typed value: a number with or without a unit, a boolean, or
// text.
type attribute struct {
	number *big.Rat // nil: not a number
	unit   string   // base unit of number, "" if it has none
	truth  *bool    // nil: not a boolean
	text   string   // as it was written
}

// parseAttribute parses a value of a job file: "2 GiB", "1.5", "true", or text.
func parseAttribute(s string) attribute {
	a := attribute{text: s}
	if s == "true" || s == "false" {
		t := s == "true"
		a.truth = &t
		return a
	}
	number := strings.TrimRightFunc(s, func(r rune) bool { return r == '/' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' })
	unit := s[len(number):]
	if units[unit].factor == nil {
		return a
	}
	number = strings.TrimSpace(number)
	if f, err := strconv.ParseFloat(number, 64); err == nil {
		if r := ratOf(number, f); r != nil {
			a.number, a.unit = r, unit
		}
	}
	return a
}

// ratOf returns a number exactly, nil if it is not a number or out of range.
func ratOf(text string, f float64) *big.Rat {
	if f > 1e30 || f < -1e30 || f != 0 && f < 1e-30 && f > -1e-30 || len(text) > 64 {
		return nil
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

// attributeOf reads a device attribute reported by an agent: an object with one
// of Float, Int, String and Bool and an optional Unit, or the plain value.
func attributeOf(v any) (attribute, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		return plainAttribute(v)
	}
	for _, k := range []string{"Float", "Int", "String", "Bool"} {
		if m[k] == nil {
			continue
		}
		a, ok := plainAttribute(m[k])
		if unit, is := m["Unit"].(string); is && unit != "" && a.number != nil {
			a.unit = unit
			a.text += " " + unit
		}
		return a, ok
	}
	return attribute{}, false
}

// plainAttribute returns a value without a unit as an attribute. ok is false
// for types that attributes do not have.
func plainAttribute(v any) (attribute, bool) {
	switch v := v.(type) {
	case string:
		return attribute{text: v}, true
	case bool:
		return attribute{truth: &v, text: strconv.FormatBool(v)}, true
	case int64:
		return attribute{number: new(big.Rat).SetInt64(v), text: strconv.FormatInt(v, 10)}, true
	case uint64:
		return attribute{number: new(big.Rat).SetUint64(v), text: strconv.FormatUint(v, 10)}, true
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if r := ratOf(text, v); r != nil {
			return attribute{number: r, text: text}, true
		}
		return attribute{text: text}, true
	}
	return attribute{}, false
}

// meetsAttribute reports whether a condition holds for two typed values.
// Numbers are converted to one unit. Numbers of different quantities, such as
// bytes and hertz, cannot be compared, and only != holds for them.
func meetsAttribute(operand string, l attribute, hasL bool, r attribute, hasR bool) bool {
	switch operand {
	case berth.OpEqual, "==", "is", berth.OpNotEqual, "not", berth.OpLess, berth.OpLessEqual, berth.OpGreater, berth.OpGreaterEqual:
	default:
		return Meets(operand, l.text, hasL, r.text, hasR)
	}
	if !hasL || !hasR {
		return Meets(operand, "", hasL, "", hasR)
	}
	c, ok := compareAttributes(l, r)
	switch operand {
	case berth.OpEqual, "==", "is":
		return ok && c == 0
	case berth.OpNotEqual, "not":
		return !ok || c != 0
	}
	return ok && l.truth == nil && ordered(operand, c)
}

// compareAttributes orders two values; not ok if they cannot be compared.
func compareAttributes(l, r attribute) (c int, ok bool) {
	switch {
	case l.number != nil && r.number != nil:
		x, y := units[l.unit], units[r.unit]
		if x.kind != y.kind || x.factor == nil || y.factor == nil {
			if l.unit == r.unit { // an unknown unit is comparable with itself
				return l.number.Cmp(r.number), true
			}
			return 0, false
		}
		return new(big.Rat).Mul(l.number, x.factor).Cmp(new(big.Rat).Mul(r.number, y.factor)), true
	case l.truth != nil && r.truth != nil:
		if *l.truth == *r.truth {
			return 0, true
		}
		return 1, true
	case l.number == nil && l.truth == nil || r.number == nil && r.truth == nil:
		return cmp.Compare(l.text, r.text), true
	}
	return 0, false
}

// unit is a unit of measure: its quantity, and its size in the base unit.
type unit struct {
	kind   string   // base unit; only equal kinds compare
	factor *big.Rat // to the base unit
}

// units are the units that device attributes and conditions may use. The empty
// unit is one, too.
var units = makeUnits()

// makeUnits returns the units of device attributes. Each has a base, such as
// bytes, and a factor to it; only units of one base can be compared.
func makeUnits() map[string]unit {
	m := map[string]unit{"": {"", big.NewRat(1, 1)}}
	power := func(base int64, n int) *big.Rat {
		r := big.NewRat(1, 1)
		for range n {
			r.Mul(r, big.NewRat(base, 1))
		}
		return r
	}
	for _, per := range []string{"", "/s"} {
		m["B"+per] = unit{"byte" + per, power(1, 1)}
		for i, p := range []string{"K", "M", "G", "T", "P", "E"} {
			m[p+"iB"+per] = unit{"byte" + per, power(1024, i+1)}
			m[p+"B"+per] = unit{"byte" + per, power(1000, i+1)}
		}
		m["kB"+per] = m["KB"+per]
	}
	m["MHz"], m["GHz"] = unit{"hertz", power(1000, 2)}, unit{"hertz", power(1000, 3)}
	m["mW"] = unit{"watt", big.NewRat(1, 1000)}
	for i, p := range []string{"W", "kW", "MW", "GW"} {
		m[p] = unit{"watt", power(1000, i)}
	}
	return m
}
