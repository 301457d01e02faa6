package disk

import (
	"context"
	"testing"

	"berth/internal/hostile"
	"berth/internal/saferoot"
	"berth/op"
)

// Names and links that another node sends lead nowhere, and what a task here left in
// the way is not gone through.
func TestTheCorpusIsNotCopiedOutside(t *testing.T) {
	names := append(hostile.Names(), hostile.Odd()...)
	copied := func(y *hostile.Yard, what string, e op.DiskEntry) {
		t.Helper()
		to, err := saferoot.Open(y.In)
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		_, err = Copy{Dirs: dirs[:1], Tell: quiet, Bytes: 1 << 20, Files: 200, From: func(_ context.Context, p op.DiskPart) (*op.DiskAnswer, error) {
			if !p.List {
				return &op.DiskAnswer{State: op.DiskReady, Data: []byte("x")}, nil
			}
			if p.After == "" && p.Path == dirs[0] {
				return &op.DiskAnswer{State: op.DiskReady, Entries: []op.DiskEntry{e}}, nil
			}
			return &op.DiskAnswer{State: op.DiskReady}, nil
		}}.Run(t.Context(), to)
		if err == nil && e.Kind == op.DiskLink { // a link means another place there
			if err := Finish(to); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		y.Untouched(t, what)
		if err := to.RemoveAll("alloc"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{Staging, Done} {
			if err := to.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	y := hostile.NewYard(t)
	for _, n := range names {
		copied(y, "file "+n, op.DiskEntry{Name: n, Kind: op.DiskFile, Size: 1, Mode: 0o6777})
		copied(y, "link to "+n, op.DiskEntry{Name: "l", Kind: op.DiskLink, Link: n})
	}
	for _, to := range y.Links() {
		copied(y, "link to "+to, op.DiskEntry{Name: "l", Kind: op.DiskLink, Link: to})
	}
}

// Nothing is read for another node through the links of a task, or by a path that is
// none.
func TestTheCorpusIsNotReadForOthers(t *testing.T) {
	y := hostile.NewYard(t)
	root, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll(dirs[0], 0o755); err != nil {
		t.Fatal(err)
	}
	paths := append(hostile.Names(), hostile.Odd()...)
	for _, n := range y.Spread(t, y.In+"/"+dirs[0]) {
		for _, below := range []string{"", "/keep", "/secret", "/etc/passwd", "/outside/keep"} {
			paths = append(paths, dirs[0]+"/"+n+below)
		}
	}
	for _, p := range paths {
		for _, list := range []bool{true, false} {
			got, err := Read(root, op.DiskPart{Path: p, List: list})
			if err != nil || got == nil {
				continue
			}
			if len(got.Data) > 0 || len(got.Entries) > 0 && p != "." && p != "alloc" && p != dirs[0] {
				t.Errorf("%.80q: %.80q, %d entries", p, got.Data, len(got.Entries))
			}
		}
	}
}
