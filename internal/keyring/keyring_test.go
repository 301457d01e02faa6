package keyring_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/keyring"

	"pgregory.net/rapid"
)

// made returns a new root key and its secret part.
func made(t testing.TB, r *keyring.Ring, before ...*berth.RootKey) (*berth.RootKey, *keyring.Key) {
	t.Helper()
	row, err := r.Make(before)
	if err != nil {
		t.Fatal(err)
	}
	k, err := r.Open(row)
	if err != nil {
		t.Fatal(err)
	}
	return row, k
}

// What is encrypted is read again, and only as the variable and with the key
// that it was encrypted for. No byte of it can be changed.
func TestSealedVariables(t *testing.T) {
	ring := keyring.New("", keyring.NewFiles(t.TempDir()))
	_, k := made(t, ring)
	_, other := made(t, ring)
	name := rapid.StringMatching(`[a-z/]{1,12}`)
	rapid.Check(t, func(r *rapid.T) {
		at := berth.VariableKey{Namespace: name.Draw(r, "namespace"), Path: name.Draw(r, "path")}
		items := rapid.MapOf(rapid.String(), rapid.String()).Draw(r, "items")
		for k, v := range items { // JSON holds UTF-8 only, which the API asks for
			if strings.ToValidUTF8(k, "") != k || strings.ToValidUTF8(v, "") != v {
				delete(items, k)
			}
		}
		data, err := k.Seal(at, items)
		if err != nil {
			r.Fatal(err)
		}
		again, err := k.Seal(at, items)
		if err != nil || bytes.Equal(data, again) {
			r.Fatalf("the same items are encrypted to the same bytes: %v", err)
		}
		v := &berth.SealedVariable{Namespace: at.Namespace, Path: at.Path, Data: data}
		got, err := k.Open(v)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(items) {
			r.Fatalf("%v is read as %v: %v", items, got, err)
		}
		moved := *v
		switch rapid.IntRange(0, 4).Draw(r, "move") {
		case 0:
			moved.Path += "x"
		case 1:
			moved.Namespace += "x"
		case 2: // the same text, divided in another way
			moved.Namespace, moved.Path = at.Namespace+at.Path[:1], at.Path[1:]
		case 3:
			moved.Data = slices.Clone(data)
			moved.Data[rapid.IntRange(0, len(data)-1).Draw(r, "byte")] ^= 1
		case 4:
			moved.Data = data[:rapid.IntRange(0, len(data)-1).Draw(r, "length")]
		}
		if _, err := k.Open(&moved); err == nil {
			r.Errorf("%+v is read as another variable", moved)
		}
		if _, err := other.Open(v); err == nil {
			r.Error("another key reads it")
		}
	})
}

// A root key is unwrapped by who has what wrapped it, and by nobody else.
func TestWrappers(t *testing.T) {
	dir := t.TempDir()
	file := func() keyring.Wrapper { return keyring.NewFiles(dir) }
	phrase := func() keyring.Wrapper { return keyring.NewPassphrase("correct horse") }
	for name, x := range map[string]struct {
		made, again, wrong func() keyring.Wrapper
		signing            string
	}{
		"files":       {file, file, func() keyring.Wrapper { return keyring.NewFiles(filepath.Join(dir, "none")) }, berth.SignEdDSA},
		"RS256":       {file, file, phrase, berth.SignRS256},
		"passphrases": {phrase, phrase, func() keyring.Wrapper { return keyring.NewPassphrase("wrong") }, berth.SignEdDSA},
	} {
		ring := keyring.New(x.signing, x.made())
		row, k := made(t, ring)
		second, _ := made(t, ring, row)
		if second.Wrapped.By != row.Wrapped.By || !bytes.Equal(second.Wrapped.Salt, row.Wrapped.Salt) || bytes.Equal(second.Wrapped.Data, row.Wrapped.Data) {
			t.Errorf("%s: the second key is wrapped as %+v", name, second.Wrapped)
		}
		data, err := k.Seal(berth.VariableKey{Path: "p"}, map[string]string{"a": "canary"})
		if err != nil {
			t.Fatal(err)
		}
		same, err := keyring.New("", x.again()).Open(row)
		if err != nil {
			t.Fatalf("%s: after a restart: %v", name, err)
		}
		if got, err := same.Open(&berth.SealedVariable{Path: "p", Data: data}); err != nil || got["a"] != "canary" {
			t.Errorf("%s: after a restart it reads %v, %v", name, got, err)
		}
		if _, err := keyring.New("", x.wrong()).Open(row); berth.KindOf(err) != berth.Unavailable {
			t.Errorf("%s: without its key it is opened: %v", name, err)
		}
		swapped := *row
		swapped.Wrapped = second.Wrapped
		if _, err := keyring.New("", x.again()).Open(&swapped); err == nil {
			t.Errorf("%s: the secret of one key is taken for another's", name)
		}
	}
}

// Wrapping keys are in files that their owner alone can read, and go to another
// server as they are.
func TestFilesOfWrappingKeys(t *testing.T) {
	dir := t.TempDir()
	one, two := keyring.NewFiles(filepath.Join(dir, "one")), keyring.NewFiles(filepath.Join(dir, "two"))
	row, _ := made(t, keyring.New("", one))
	files, err := os.ReadDir(filepath.Join(dir, "one"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if st, err := files[0].Info(); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	missing := two.Missing([]*berth.RootKey{row, row})
	if len(missing) != 1 || len(one.Missing([]*berth.RootKey{row})) != 0 {
		t.Fatalf("missing are %v", missing)
	}
	if _, err := two.Key(missing[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	key, err := one.Key(missing[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Add(missing[0], key[1:]); berth.KindOf(err) != berth.Invalid {
		t.Errorf("a key that is too short: %v", err)
	}
	if err := two.Add(missing[0], key); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.New("", two).Open(row); err != nil {
		t.Error(err)
	}
}

// Nothing prints a key.
func TestKeysAreNotPrinted(t *testing.T) {
	_, k := made(t, keyring.New("", keyring.NewFiles(t.TempDir())))
	j, err := json.Marshal(map[string]any{"k": k})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprint(k), fmt.Sprintf("%+v", k), fmt.Sprintf("%#v", k), k.LogValue().String(), strings.Trim(string(j), `{"k:}`)} {
		if s != "redacted" {
			t.Errorf("printed is %q", s)
		}
	}
}

// An identity is verified with the published keys, and with no other.
func TestIdentities(t *testing.T) {
	for _, signing := range []string{berth.SignEdDSA, berth.SignRS256} {
		ring := keyring.New(signing, keyring.NewFiles(t.TempDir()))
		row, k := made(t, ring)
		other, _ := made(t, ring)
		rows := map[berth.RootKeyID]*berth.RootKey{row.ID: row, other.ID: other}
		find := func(id berth.RootKeyID) *berth.RootKey { return rows[id] }
		token, err := k.Sign(map[string]any{"sub": "me"})
		if err != nil {
			t.Fatal(err)
		}
		var claims struct {
			Sub string `json:"sub"`
		}
		if err := keyring.Verify(token, find, &claims); err != nil || claims.Sub != "me" {
			t.Errorf("%s: %+v, %v", signing, claims, err)
		}
		set, err := keyring.PublicKeys(slices.Values([]*berth.RootKey{row, other}))
		if err != nil || strings.Count(string(set), `"kid"`) != 2 || strings.Contains(string(set), `"d"`) {
			t.Errorf("%s: published is %s, %v", signing, set, err)
		}
		parts := strings.Split(token, ".")
		for _, bad := range []string{"", "x", "a.b.c", parts[0] + "." + parts[1] + ".", parts[0] + ".e30." + parts[2], "eyJhbGciOiJub25lIn0." + parts[1] + "."} {
			if err := keyring.Verify(bad, find, &claims); berth.KindOf(err) != berth.Denied {
				t.Errorf("%s: %q: %v", signing, bad, err)
			}
		}
		rows[row.ID] = other
		if err := keyring.Verify(token, find, &claims); berth.KindOf(err) != berth.Denied {
			t.Errorf("%s: with another key: %v", signing, err)
		}
		delete(rows, row.ID)
		if err := keyring.Verify(token, find, &claims); berth.KindOf(err) != berth.Denied {
			t.Errorf("%s: with a key that was removed: %v", signing, err)
		}
	}
}
