package berth

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseID(t *testing.T) {
	const good = "0123abcd-4567-89ef-0123-456789abcdef"
	for _, tt := range []struct {
		in, want string
		ok       bool
	}{
		{good, good, true},
		{strings.ToUpper(good), good, true},
		{"", "", true},
		{"00000000-0000-0000-0000-000000000000", "", true}, // the zero ID is none
		{good[:35], "", false},
		{good + "0", "", false},
		{"0123abcd_4567-89ef-0123-456789abcdef", "", false},
		{"0123abcd-4567-89ef-0123-456789abcdeg", "", false},
		{"0123abcd-4567-89ef-0123-45678-abcdef", "", false},
		{"-123abcd-4567-89ef-0123-456789abcdef", "", false},
		{strings.Repeat("x", 36), "", false},
		{strings.Repeat("0", 1000), "", false},
	} {
		id, err := ParseID[Node](tt.in)
		if (err == nil) != tt.ok || id.String() != tt.want {
			t.Errorf("ParseID(%.40q) = %q, %v", tt.in, id, err)
		}
		if err != nil && (KindOf(err) != Invalid || !id.IsZero() || len(err.Error()) > 200) {
			t.Errorf("ParseID(%.40q): kind %q, id %v, %v", tt.in, KindOf(err), id, err)
		}
	}
}

func TestIDForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var id AllocID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		text, err := json.Marshal(struct{ ID AllocID }{id})
		if err != nil {
			t.Fatal(err)
		}
		var back struct{ ID AllocID }
		if err := json.Unmarshal(text, &back); err != nil || back.ID != id {
			t.Fatalf("%s became %v: %v", text, back.ID, err)
		}
		if id.IsZero() {
			return
		}
		if id.Short() != id.String()[:8] || len(id.Short()) != 8 {
			t.Fatalf("Short is %q of %q", id.Short(), id)
		}
		p, err := ParseIDPrefix(id.String()[:rapid.IntRange(1, 36).Draw(t, "length")])
		if err != nil {
			t.Fatal(err)
		}
		low := p.Lowest()
		if !p.Matches(id) || !p.Matches(low) || bytes.Compare(low[:], id[:]) > 0 {
			t.Fatalf("prefix of %v: lowest %x", id, low)
		}
	})
}

func TestParseIDPrefix(t *testing.T) {
	id := must(ParseID[Alloc]("0123abcd-4567-89ef-0123-456789abcdef"))
	for _, tt := range []struct {
		in      string
		ok      bool
		matches bool
	}{
		{"0", true, true},
		{"0123ABCD", true, true},
		{"0123abcd-", true, true},
		{"0123abcd-4", true, true},
		{"0123abce", true, false},
		{"1", true, false},
		{id.String(), true, true},
		{"", false, false},
		{"-", false, false},
		{"0123abcd4", false, false}, // a dash belongs there
		{"0123-", false, false},
		{"g", false, false},
		{"0 ", false, false},
		{id.String() + "0", false, false},
	} {
		p, err := ParseIDPrefix(tt.in)
		if (err == nil) != tt.ok {
			t.Errorf("ParseIDPrefix(%q): %v", tt.in, err)
			continue
		}
		if err == nil && p.Matches(id) != tt.matches {
			t.Errorf("%q matches %v: %v", tt.in, id, !tt.matches)
		}
		if err != nil && KindOf(err) != Invalid {
			t.Errorf("ParseIDPrefix(%q): kind %q", tt.in, KindOf(err))
		}
	}
}

func TestUIDText(t *testing.T) {
	u := UID{Index: 0xa31, Ordinal: 2}
	if got := u.Text('j'); got != "j-0000000000000a31-02" {
		t.Errorf("Text is %q", got)
	}
	if got := (UID{}).Text('j'); got != "" {
		t.Errorf("Text of none is %q", got)
	}
	for _, tt := range []struct {
		in   string
		want UID
		ok   bool
	}{
		{"0000000000000a31-02", u, true},
		{"j-0000000000000a31-02", u, true},
		{"", UID{}, true},
		{"ffffffffffffffff-ffffffff", UID{1<<64 - 1, 1<<32 - 1}, true},
		{"0000000000000a31-02x", UID{}, false},
		{"0000000000000a31-02 ", UID{}, false},
		{"0000000000000a31-", UID{}, false},
		{"0000000000000a31", UID{}, false},
		{"a31-02", UID{}, false},
		{"+000000000000a31-02", UID{}, false},
		{"0000000000000a31-1ffffffff", UID{}, false},
		{"j-", UID{}, false},
		{"jj-0000000000000a31-02", UID{}, false},
		{"x", UID{}, false},
	} {
		got := UID{Index: 7}
		err := got.UnmarshalText([]byte(tt.in))
		if (err == nil) != tt.ok || err == nil && got != tt.want || err != nil && got != (UID{Index: 7}) {
			t.Errorf("%q became %v, %v", tt.in, got, err)
		}
	}
}

func TestUIDForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := UID{rapid.Uint64().Draw(t, "index"), rapid.Uint32().Draw(t, "ordinal")}
		b, _ := u.MarshalText()
		var v UID
		if err := v.UnmarshalText(b); err != nil || v != u {
			t.Fatalf("%v became %v by %q: %v", u, v, b, err)
		}
		if err := v.UnmarshalText([]byte(u.Text('a'))); err != nil || v != u {
			t.Fatalf("%v became %v by %q: %v", u, v, u.Text('a'), err)
		}
	})
}

func TestEnums(t *testing.T) {
	for i, name := range clientNames {
		var s ClientStatus
		if err := s.UnmarshalText([]byte(name)); err != nil || int(s) != i || s.String() != name {
			t.Errorf("%q is %v: %v", name, s, err)
		}
	}
	var s ClientStatus = ClientLost
	if err := s.UnmarshalText(nil); err != nil || s != ClientPending {
		t.Errorf("no text is %v: %v", s, err)
	}
	if err := s.UnmarshalText([]byte("Running")); KindOf(err) != Invalid {
		t.Errorf("an unknown status: %v", err)
	}
	var d DesiredStatus
	if err := d.UnmarshalText([]byte("")); KindOf(err) != Invalid {
		t.Errorf("no desired status: %v", err)
	}
	if got := ClientStatus(99).String(); got != "unknown(99)" {
		t.Errorf("a status that is none prints %q", got)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
