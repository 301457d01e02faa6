package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"
)

// calls reads a history, a line for each call: begin and end in milliseconds,
// what it was, and what came of it unless it was done.
//
//	0-10 write 1
//	20-30 swap 1 2 refused
//	40-50 read 2
func calls(t *testing.T, text string) (out []*call) {
	t.Helper()
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var from, to int
		f := strings.Fields(line)
		if _, err := fmt.Sscanf(f[0], "%d-%d", &from, &to); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		c := &call{Client: i, Server: "s1", Kind: kind(f[1]), Key: "register-x", Call: time.Duration(from) * time.Millisecond, Return: time.Duration(to) * time.Millisecond, Outcome: done}
		rest := f[2:]
		if n := len(rest); n > 0 && (rest[n-1] == string(refused) || rest[n-1] == string(unknown)) {
			c.Outcome, rest = outcome(rest[n-1]), rest[:n-1]
		}
		if c.Outcome == refused {
			c.Status = map[kind]int{swap: 409, purge: 404, probe: 404}[c.Kind]
		}
		switch {
		case c.Kind == swap:
			c.Old, c.Value = rest[0], rest[1]
		case len(rest) > 0:
			c.Value = rest[0]
		}
		out = append(out, c)
	}
	return out
}

func TestOrder(t *testing.T) {
	for _, x := range []struct{ name, history, culprit string }{
		{"what was written is read", "0-10 write 1\n20-30 read 1", ""},
		{"nothing is there before", "0-10 read\n20-30 write 1", ""},
		{"what was acknowledged is gone", "0-10 write 1\n20-30 read", "read register-x"},
		{"what is old is read", "0-10 write 1\n20-30 write 2\n40-50 read 1", "read register-x 1"},
		{"what is written meanwhile may be read or not", "0-100 write 1\n10-20 read\n30-40 read 1", ""},
		{"but then it is there", "0-100 write 1\n10-20 read 1\n30-40 read", "read register-x"},
		{"a write of which nothing is known may have been made", "0-10 write 1 unknown\n20-30 read 1", ""},
		{"or not", "0-10 write 1 unknown\n20-30 read", ""},
		{"or be made later", "0-10 write 1 unknown\n20-30 read\n40-50 read 1", ""},
		{"but once", "0-10 write 1 unknown\n20-30 read 1\n40-50 write 2\n60-70 read 1", "read register-x 1"},
		{"a purge of which nothing is known, too", "0-10 write 1\n20-30 purge unknown\n40-50 read 1\n60-70 read", ""},
		{"a swap of what is there", "0-10 write 1\n20-30 swap 1 2\n40-50 read 2", ""},
		{"a swap of what is not there", "0-10 write 1\n20-30 write 2\n40-50 swap 1 3", "swap register-x 1 → 3"},
		{"is refused", "0-10 write 1\n20-30 write 2\n40-50 swap 1 3 refused", ""},
		{"and only that is", "0-10 write 1\n20-30 swap 1 2 refused", "swap register-x 1 → 2"},
		{"it may be refused over what nobody saw", "0-10 write 1\n15-16 write 7 unknown\n20-30 swap 1 2 refused", ""},
		{"what does not exist is not purged", "0-10 write 1\n20-30 purge\n40-50 purge refused", ""},
		{"what exists is purged", "0-10 write 1\n20-30 purge refused", "purge register-x"},
		{"a refusal is as new as a read", "0-10 write 1\n20-30 probe refused", "probe register-x"},
		{"what is written meanwhile may be missing", "0-100 write 1\n20-30 probe refused\n110-120 probe", ""},
		{"what nobody wrote is not probed", "0-10 write 1 unknown\n20-30 purge\n40-50 probe\n60-70 read", "read register-x"},
		{"what was refused is not there", "0-10 write 1\n20-30 write 2\n40-50 swap 1 3 refused\n60-70 read 3", "read register-x 3"},
	} {
		t.Run(x.name, func(t *testing.T) {
			got := strings.Join(judgeOrder(calls(t, x.history)), "\n")
			if (got == "") != (x.culprit == "") || !strings.Contains(got, x.culprit) {
				t.Errorf("%q, wanted is %q", got, x.culprit)
			}
		})
	}
}

// A history says the same without the calls that telling leaves out.
func TestWhatTellsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := []string{"", "1", "2", "3"}
		var all []porcupine.Operation
		for i := range rapid.IntRange(2, 10).Draw(t, "calls") {
			from := rapid.IntRange(0, 12).Draw(t, "from")
			c := &call{Client: i, Key: "register-x", Outcome: done, Call: time.Duration(from), Return: time.Duration(from + rapid.IntRange(1, 8).Draw(t, "time"))}
			if i < len(values)-1 { // each value is written once
				c.Kind, c.Value = write, values[i+1]
				if i > 0 && rapid.Bool().Draw(t, "swap") {
					c.Kind, c.Old = swap, values[i]
				}
			} else {
				c.Kind = rapid.SampledFrom([]kind{read, read, read, read, purge, probe}).Draw(t, "kind")
			}
			switch {
			case c.Kind == read:
				c.Value = rapid.SampledFrom(values).Draw(t, "value")
			case c.Kind != write && rapid.Bool().Draw(t, "refused"):
				c.Outcome, c.Status = refused, map[kind]int{swap: 409, purge: 404, probe: 404}[c.Kind]
			}
			all = append(all, porcupine.Operation{ClientId: i, Input: c, Call: int64(c.Call), Output: c.Value, Return: int64(c.Return)})
		}
		few := telling(all)
		if want, got := porcupine.CheckOperations(registers, all), porcupine.CheckOperations(registers, few); got != want {
			t.Errorf("linearizable is %v with all %d calls, and %v with %d of them", want, len(all), got, len(few))
		}
	})
}

// Forty users read while a value is written again and again, and one of them
// reads what is old: that is found, however many orders there are.
func TestAStaleReadAmongMany(t *testing.T) {
	var text strings.Builder
	for i := range 60 {
		at := 100 * i
		fmt.Fprintf(&text, "%d-%d write %d\n", at, at+40, i+1)
		for k := range 40 {
			fmt.Fprintf(&text, "%d-%d read %d\n", at+30+k%20, at+95+k%10, i+1)
		}
	}
	fmt.Fprintf(&text, "%d-%d write 61\n%d-%d read 60", 6000, 6010, 6020, 6030)
	if got := judgeOrder(calls(t, text.String())); len(got) != 1 || !strings.Contains(got[0], "is not linearisable: read register-x 60") {
		t.Errorf("%q", got)
	}
}

func TestIndexesFall(t *testing.T) {
	same := func(kind kind, life int, index uint64, at int) *call {
		d := time.Duration(at) * time.Second
		return &call{Client: 1, Key: "register-x", Kind: kind, Life: life, Index: index, Call: d, Return: d + 1, Outcome: done}
	}
	for _, x := range []struct {
		name  string
		calls []*call
		found int
	}{
		{"they rise", []*call{same(stale, 1, 5, 1), same(stale, 1, 5, 2), same(stale, 1, 6, 3)}, 0},
		{"one falls", []*call{same(stale, 1, 5, 1), same(stale, 1, 4, 2)}, 1},
		{"a server that was started anew may be behind", []*call{same(stale, 1, 5, 1), same(stale, 2, 4, 2)}, 0},
		{"but not with what is not stale", []*call{same(read, 1, 5, 1), same(read, 2, 4, 2)}, 1},
	} {
		if got := judgeIndexes(x.calls); len(got) != x.found {
			t.Errorf("%s: %q", x.name, got)
		}
	}
}

func TestWhatAConnectionShows(t *testing.T) {
	one := func(kind kind, conn, value string, version uint64, at int) *call {
		d := time.Duration(at) * time.Second
		return &call{Key: "register-x", Kind: kind, Conn: conn, Value: value, Version: version, Call: d, Return: d + 1, Outcome: done}
	}
	for _, x := range []struct {
		name  string
		calls []*call
		found int
	}{
		{"what was written is read", []*call{one(write, "a", "1", 5, 1), one(stale, "a", "1", 5, 2)}, 0},
		{"it is not there", []*call{one(write, "a", "1", 5, 1), one(stale, "a", "", 0, 2)}, 1},
		{"it is not there for others", []*call{one(write, "a", "1", 5, 1), one(stale, "b", "", 0, 2)}, 0},
		{"what was there before is read", []*call{one(write, "a", "2", 6, 1), one(stale, "a", "1", 5, 2)}, 1},
		{"what was read is older the next time", []*call{one(stale, "a", "2", 6, 1), one(stale, "a", "1", 5, 2)}, 1},
		{"somebody purged it", []*call{one(write, "a", "1", 5, 1), one(purge, "b", "", 0, 2), one(stale, "a", "", 0, 3)}, 0},
		{"somebody had purged it, and a stale read did not know", []*call{one(purge, "b", "", 0, 1), one(stale, "a", "1", 5, 2), one(stale, "a", "", 0, 3)}, 0},
		{"somebody had purged it before", []*call{one(purge, "b", "", 0, 1), one(write, "a", "1", 5, 3), one(stale, "a", "", 0, 4)}, 1},
	} {
		if got := judgeConnections(x.calls); len(got) != x.found {
			t.Errorf("%s: %q", x.name, got)
		}
	}
}

func TestTokens(t *testing.T) {
	one := func(token, child string) *call { return &call{Kind: dispatch, Key: token, Value: child, Outcome: done} }
	if got := judgeTokens([]*call{one("a", "1"), one("b", "2"), one("a", "1")}); len(got) != 0 {
		t.Error(got)
	}
	if got := judgeTokens([]*call{one("a", "1"), one("a", "2")}); len(got) != 1 {
		t.Error(got)
	}
}
