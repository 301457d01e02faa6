// Package cpuset reads and writes sets of processor cores in the list notation
// of Linux: "0-2,5". A set is a sorted slice of distinct numbers.
package cpuset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Max is the highest core number of a set. It is far above what Linux supports,
// and keeps a mistyped range from exhausting memory.
const Max = 1<<13 - 1

// Parse reads a list. An empty text is the empty set. The error names the part
// that is not a core or a range of cores.
func Parse(s string) (set []uint16, err error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		a, err1 := strconv.ParseUint(low, 10, 16)
		b, err2 := strconv.ParseUint(high, 10, 16)
		if err1 != nil || err2 != nil || a > b || b > Max {
			return nil, fmt.Errorf("%.40q is neither a core nor a range such as 0-3, up to %d", part, Max)
		}
		for n := a; n <= b; n++ {
			set = append(set, uint16(n))
		}
	}
	slices.Sort(set)
	return slices.Compact(set), nil
}

// Format writes a set as a list, in order and with ranges for consecutive
// cores. The set need not be sorted.
func Format(set []uint16) string {
	set = slices.Clone(set)
	slices.Sort(set)
	set = slices.Compact(set)
	var out []string
	for i := 0; i < len(set); {
		j := i
		for j+1 < len(set) && set[j+1] == set[j]+1 {
			j++
		}
		part := strconv.Itoa(int(set[i]))
		if j > i {
			part += "-" + strconv.Itoa(int(set[j]))
		}
		out = append(out, part)
		i = j + 1
	}
	return strings.Join(out, ",")
}

// Minus returns the cores in a and not in b. Both must be sets.
func Minus(a, b []uint16) []uint16 {
	return slices.DeleteFunc(slices.Clone(a), func(n uint16) bool { return slices.Contains(b, n) })
}

// Both returns the cores in a and in b. Both must be sets.
func Both(a, b []uint16) []uint16 {
	return slices.DeleteFunc(slices.Clone(a), func(n uint16) bool { return !slices.Contains(b, n) })
}
