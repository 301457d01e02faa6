package statetest

import (
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	l := Lines(t, `node n1 up cpu=4000 meta.rack="r 1" for=1m list=a,b tail={"a": 1} # a remark`)[0]
	if l.Verb != "node" || l.Word(0) != "n1" || !l.Has("up") || l.Word(9) != "" {
		t.Errorf("%+v", l)
	}
	if n := l.Int(t, "cpu", 1); n != 4000 {
		t.Errorf("cpu is %d", n)
	}
	if m, _ := l.Under("meta"); m["rack"] != "r 1" {
		t.Errorf("meta is %q", m)
	}
	if d := l.Duration(t, "for", 0); d != time.Minute {
		t.Errorf("for is %v", d)
	}
	if x := l.List("list"); len(x) != 2 || x[1] != "b" {
		t.Errorf("list is %q", x)
	}
	if names := l.Names(); len(names) != 1 || names[0] != "tail" {
		t.Errorf("unread are %q", names)
	}
	if l.Text("tail", "") != `{"a": 1}` || l.Text("none", "d") != "d" {
		t.Error("texts")
	}
	l.Done(t)
}

func TestBrokenLines(t *testing.T) {
	for _, text := range []string{`a "b`, `a {b`, `a x=1 x=2`} {
		if _, err := parseLine(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
