package fetch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"berth/internal/saferoot"
)

// The tests of this file are rows of docs/advisories.md.

// C14: nothing of a source becomes an option of a program.
func TestAdvisory_C14_SourcesAreNoArguments(t *testing.T) {
	r := newRig(t, Config{})
	made := filepath.Join(t.TempDir(), "made")
	for _, source := range []string{
		"git::ext::sh -c touch% " + made, "git::http://--upload-pack=touch%20" + made + "/repo", "git::ssh://-oProxyCommand=touch%20" + made + "/repo",
		"git::" + r.url + "/x?ref=--upload-pack=touch " + made, "git::" + r.url + "/x?ref=--output=" + made, "git::" + r.url + "/x?depth=--output=" + made,
		"git::" + r.url + "/x?sshkey=" + made, "git::-c core.sshCommand=touch " + made, "git::file://" + made, "git::" + r.url + "/x//--output=" + made,
		"hg::--config=alias.clone=!touch " + made, "hg::" + r.url + "?rev=--config=hooks.pre-clone=touch " + made,
	} {
		if err := r.get(t, Artifact{Source: source}, "task/local"); err == nil {
			t.Errorf("%q is fetched", source)
		}
		if _, err := os.Lstat(made); err == nil {
			t.Fatalf("%q ran a program", source)
		}
	}
	if got := r.tree(t); got != "" {
		t.Errorf("placed: %.300s", got)
	}
}

// C24: a source that is none is an error.
func TestAdvisory_C24_SourcesThatAreNone(t *testing.T) {
	r := newRig(t, Config{})
	var tries errgroup.Group
	tries.SetLimit(8)
	for _, source := range []string{"", ":", "::", "git::", "://", "http://", "http:///", "http://[", "http://[::1", "http://%zz/", "http://a:b:c/", "?", "#", "//", "http://\x7f/", "git::::", "x::y::z", strings.Repeat("a", 70000), "http://h?checksum=", "http://h?checksum=sha256", "\xff\xfe"} {
		for _, mode := range []string{ModeAny, ModeFile, ModeDir} {
			tries.Go(func() error { // at once: some wait for the name of a host
				if err := r.get(t, Artifact{Source: source, Mode: mode}, "task/local"); err == nil {
					t.Errorf("%.40q is fetched", source)
				}
				return nil
			})
		}
	}
	if err := tries.Wait(); err != nil {
		t.Error(err)
	}
}

// C27: what is fetched at the same time does not get mixed up.
func TestAdvisory_C27_ArtifactsAtTheSameTime(t *testing.T) {
	r := newRig(t, Config{})
	const many = 12
	for i := range many {
		r.files[fmt.Sprintf("/f%d", i)] = []byte(fmt.Sprint("text ", i))
	}
	var all sync.WaitGroup
	errs := make([]error, many)
	for i := range many {
		all.Go(func() {
			owner := saferoot.Adoption{UID: -1, GID: -1}
			errs[i] = r.Fetch(t.Context(), &Artifact{Source: fmt.Sprintf("%s/f%d?filename=same", r.url, i), Mode: ModeAny}, r.root, fmt.Sprintf("task/local/%d", i), owner)
		})
	}
	all.Wait()
	for i := range many {
		b, err := os.ReadFile(filepath.Join(r.root.Path(), "task/local", fmt.Sprint(i), "same"))
		if errs[i] != nil || string(b) != fmt.Sprint("text ", i) {
			t.Errorf("%d is %q, %v %v", i, b, errs[i], err)
		}
	}
}

// C44: no program that is fetched runs as somebody else.
func TestAdvisory_C44_SetuidBitsAreDropped(t *testing.T) {
	r := newRig(t, Config{})
	r.files["/a.tgz"] = tarGz(t, entry{name: "u", text: "x", mode: 0o4755}, entry{name: "g", text: "x", mode: 0o2755}, entry{name: "s", text: "x", mode: 0o1755})
	if err := r.get(t, Artifact{Source: "URL/a.tgz"}, "task/local"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"u", "g", "s"} {
		st, err := os.Stat(filepath.Join(r.root.Path(), "task/local", name))
		if err != nil || st.Mode() != 0o755 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
}
