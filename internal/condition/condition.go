// Package condition evaluates constraints and affinities: it compares the value
// of a node's or device's attribute with a second value.
package condition

import (
	"strconv"
	"strings"

	"berth"
)

// Meets reports whether a condition holds for the values of its two sides. A
// missing attribute meets only != and is_not_set.
func Meets(operand, left string, hasLeft bool, right string, hasRight bool) bool {
	switch operand {
	case berth.OpIsSet:
		return hasLeft
	case berth.OpIsNotSet:
		return !hasLeft
	case berth.OpNotEqual, "not":
		return hasLeft != hasRight || left != right
	}
	if !hasLeft || !hasRight {
		return false
	}
	switch operand {
	case berth.OpEqual, "==", "is":
		return left == right
	case berth.OpLess, berth.OpLessEqual, berth.OpGreater, berth.OpGreaterEqual:
		return ordered(operand, compare(left, right))
	}
	return Parse(operand, right).Meets(left)
}

// ordered reports whether the result c of a comparison meets the operand, which
// is <, <=, > or >=.
func ordered(operand string, c int) bool {
	switch operand {
	case berth.OpLess:
		return c < 0
	case berth.OpLessEqual:
		return c <= 0
	case berth.OpGreater:
		return c > 0
	}
	return c >= 0
}

// compare orders two values: as integers if both are, otherwise as numbers if
// both are, otherwise as text.
func compare(a, b string) int {
	if x, err := strconv.ParseInt(a, 10, 64); err == nil {
		if y, err := strconv.ParseInt(b, 10, 64); err == nil {
			return sign(x < y, x > y)
		}
	}
	if x, err := strconv.ParseFloat(a, 64); err == nil {
		if y, err := strconv.ParseFloat(b, 64); err == nil {
			return sign(x < y, x > y)
		}
	}
	return strings.Compare(a, b)
}

// sign returns -1, 0 or 1.
func sign(less, greater bool) int {
	switch {
	case less:
		return -1
	case greater:
		return 1
	}
	return 0
}
