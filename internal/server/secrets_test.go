package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	nomad "github.com/hashicorp/nomad/api"
)

// Variables are written, read, listed and deleted with the public client, only
// as their caller takes them to be.
func TestVariablesWithThePublicClient(t *testing.T) {
	r := start(t, t.TempDir())
	vars := r.api.Variables()
	made, _, err := vars.CheckedCreate(&nomad.Variable{Path: "app/db", Items: nomad.VariableItems{"user": "u", "password": "p"}}, nil)
	if err != nil || made.ModifyIndex == 0 || made.CreateIndex != made.ModifyIndex || made.Items["password"] != "p" || made.Namespace != "default" {
		t.Fatalf("%+v, %v", made, err)
	}
	_, _, err = vars.CheckedCreate(&nomad.Variable{Path: "app/db", Items: nomad.VariableItems{"x": "y"}}, nil)
	var met nomad.ErrCASConflict
	if !errors.As(err, &met) || met.Conflict.ModifyIndex != made.ModifyIndex || met.Conflict.Items["user"] != "u" {
		t.Errorf("created twice: %v", err)
	}
	made.Items["user"] = "w"
	next, _, err := vars.CheckedUpdate(made, nil)
	if err != nil || next.ModifyIndex <= made.ModifyIndex || next.CreateIndex != made.CreateIndex {
		t.Fatalf("%+v, %v", next, err)
	}
	if _, _, err := vars.CheckedUpdate(made, nil); !errors.As(err, &met) {
		t.Errorf("updated as it was once: %v", err)
	}
	if _, _, err := vars.Update(&nomad.Variable{Path: "app/cache", Items: nomad.VariableItems{"a": "b"}}, nil); err != nil {
		t.Fatal(err)
	}
	got, meta, err := vars.Read("app/db", nil)
	if err != nil || got.Items["user"] != "w" || meta.LastIndex != next.ModifyIndex {
		t.Errorf("%+v, %+v, %v", got, meta, err)
	}
	list, _, err := vars.PrefixList("app/", &nomad.QueryOptions{PerPage: 1})
	if err != nil || len(list) != 1 || list[0].Path != "app/cache" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, _, err := vars.List(&nomad.QueryOptions{Filter: `Path contains "db"`, Namespace: "*"}); err != nil || len(list) != 1 || list[0].Path != "app/db" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := vars.CheckedDelete("app/db", made.ModifyIndex, nil); !errors.As(err, &met) {
		t.Errorf("deleted as it was once: %v", err)
	}
	if _, err := vars.CheckedDelete("app/db", next.ModifyIndex, nil); err != nil {
		t.Error(err)
	}
	if _, err := vars.Delete("app/db", nil); err != nil {
		t.Errorf("deleted twice: %v", err)
	}
	if _, _, err := vars.Read("app/db", nil); !errors.Is(err, nomad.ErrVariablePathNotFound) {
		t.Errorf("it is not gone: %v", err)
	}
	_, _, err = vars.Create(&nomad.Variable{Path: "a b", Items: nomad.VariableItems{"a": "b"}}, nil)
	refused(t, "a bad path", err, 400, "Path: must consist of")
	_, _, err = vars.Create(&nomad.Variable{Path: "nomad/other", Items: nomad.VariableItems{"a": "b"}}, nil)
	refused(t, "a reserved path", err, 400, "only nomad/jobs and nomad/job-templates are allowed")
	_, _, err = vars.Create(&nomad.Variable{Path: "empty"}, nil)
	refused(t, "no items", err, 400, "variable missing required Items object")
	_, _, err = vars.Create(&nomad.Variable{Path: "big", Items: nomad.VariableItems{"a": strings.Repeat("x", 64<<10)}}, nil)
	refused(t, "large items", err, 413, "must have at most 65536 bytes")
}

// A lock is taken, renewed and released by its holder alone.
func TestLocksWithThePublicClient(t *testing.T) {
	r := start(t, t.TempDir())
	vars := r.api.Variables()
	lock := &nomad.Variable{Path: "lock", Lock: &nomad.VariableLock{TTL: "20s", LockDelay: "1s"}}
	held, _, err := vars.AcquireLock(lock, nil)
	if err != nil || held.LockID() == "" || held.Lock.TTL != "20s" {
		t.Fatalf("%+v, %v", held, err)
	}
	conflict := func(what string, err error) {
		t.Helper()
		refused(t, what, err, 409, "")
	}
	_, _, err = vars.AcquireLock(lock, nil)
	conflict("another's lock", err)
	_, _, err = vars.Update(&nomad.Variable{Path: "lock", Items: nomad.VariableItems{"a": "b"}}, nil)
	conflict("a write without the lock", err)
	_, err = vars.Delete("lock", nil)
	if err == nil {
		t.Error("it was deleted without the lock")
	}
	own := &nomad.Variable{Path: "lock", Items: nomad.VariableItems{"a": "b"}, Lock: &nomad.VariableLock{ID: held.LockID()}}
	if _, _, err := vars.Update(own, nil); err != nil {
		t.Errorf("a write with the lock: %v", err)
	}
	if meta, _, err := vars.RenewLock(own, nil); err != nil || meta.Lock == nil || meta.Lock.ID != held.LockID() {
		t.Errorf("renewed: %+v, %v", meta, err)
	}
	other := &nomad.Variable{Path: "lock", Lock: &nomad.VariableLock{ID: "11111111-1111-1111-1111-111111111111"}}
	_, _, err = vars.RenewLock(other, nil)
	conflict("a renewal by another", err)
	_, _, err = vars.ReleaseLock(other, nil)
	conflict("a release by another", err)
	if free, _, err := vars.ReleaseLock(&nomad.Variable{Path: "lock", Lock: own.Lock}, nil); err != nil || free.Lock != nil || free.Items["a"] != "b" {
		t.Errorf("released: %+v, %v", free, err)
	}
	_, _, err = vars.RenewLock(own, nil)
	conflict("a renewal of what was released", err)
	if _, _, err := vars.AcquireLock(lock, nil); err != nil {
		t.Errorf("taken after its release: %v", err)
	}
	_, _, err = vars.AcquireLock(&nomad.Variable{Path: "x", Lock: &nomad.VariableLock{TTL: "1s"}}, nil)
	refused(t, "a time that is too short", err, 400, "Lock.TTL: must be a duration from 10s to 24h0m0s")
}

// Keys are listed, rotated and removed; a full rotation encrypts everything
// again. What was written is there after a restart.
func TestKeyringWithThePublicClient(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	keys := r.api.Keyring()
	if resp, err := http.Get(r.http + "/.well-known/jwks.json"); err != nil { // the first to need a key
		t.Fatal(err)
	} else {
		resp.Body.Close()
	}
	var first []*nomad.RootKeyMeta
	r.until("there is a key", func() bool {
		var err error
		first, _, err = keys.List(nil)
		return err == nil && len(first) > 0
	})
	if len(first) != 1 || first[0].State != nomad.RootKeyStateActive || first[0].Algorithm != nomad.EncryptionAlgorithmAES256GCM {
		t.Fatalf("%+v", first)
	}
	for n := range 250 {
		if _, _, err := r.api.Variables().Create(&nomad.Variable{Path: fmt.Sprintf("v/%d", n), Items: nomad.VariableItems{"a": "canary-in-a-variable"}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	_, err := keys.Delete(&nomad.KeyringDeleteOptions{KeyID: first[0].KeyID}, nil)
	refused(t, "the active key", err, 400, "is active and cannot be removed")
	second, _, err := keys.Rotate(&nomad.KeyringRotateOptions{Full: true}, nil)
	if err != nil || second.State != nomad.RootKeyStateActive {
		t.Fatalf("%+v, %v", second, err)
	}
	r.until("the end of the rotation", func() bool {
		list, _, err := keys.List(nil)
		return err == nil && len(list) == 2 && list[0].State == nomad.RootKeyStateInactive && list[1].State == nomad.RootKeyStateActive
	})
	if _, err := keys.Delete(&nomad.KeyringDeleteOptions{KeyID: first[0].KeyID}, nil); err != nil {
		t.Error(err)
	}
	third, _, err := keys.Rotate(&nomad.KeyringRotateOptions{PublishTime: time.Now().Add(time.Hour).UnixNano()}, nil)
	if err != nil || third.State != nomad.RootKeyStatePrepublished {
		t.Errorf("%+v, %v", third, err)
	}
	_, _, err = keys.Rotate(&nomad.KeyringRotateOptions{Algorithm: "rot13"}, nil)
	refused(t, "an algorithm", err, 400, `algo: must be aes256-gcm, got "rot13"`)
	r.stop()

	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("canary-in-a-variable")) {
			t.Errorf("%s has the value in plain text", path)
		}
		return nil
	})
	r = start(t, dir)
	for n := range 250 {
		if v, _, err := r.api.Variables().Read(fmt.Sprintf("v/%d", n), nil); err != nil || v.Items["a"] != "canary-in-a-variable" {
			t.Fatalf("after a restart: %+v, %v", v, err)
		}
	}
}

// The public keys are there from the first leader on, for everybody.
func TestPublicKeys(t *testing.T) {
	r := start(t, t.TempDir())
	var resp *http.Response
	r.until("there is a key", func() bool {
		var err error
		if resp, err = http.Get(r.http + "/.well-known/jwks.json"); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			resp.Body.Close()
		}
		return resp.StatusCode == http.StatusOK
	})
	defer resp.Body.Close()
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil || len(set.Keys) != 1 || !set.Keys[0].IsPublic() || set.Keys[0].Use != "sig" || set.Keys[0].Algorithm != "EdDSA" {
		t.Errorf("%s: %+v, %v", resp.Status, set, err)
	}
	none, err := http.Get(r.http + "/.well-known/openid-configuration")
	if err != nil {
		t.Fatal(err)
	}
	none.Body.Close()
	if none.StatusCode != http.StatusNotFound {
		t.Errorf("without an issuer: %s", none.Status)
	}
}

// A server that did not make the wrapping key gets it from the one that did,
// and reads what any other wrote.
func TestServersShareTheWrappingKey(t *testing.T) {
	c := startSeveral(t, 3)
	lead := c.list[c.leader()]
	if _, _, err := lead.api.Variables().Create(&nomad.Variable{Path: "p", Items: nomad.VariableItems{"a": "b"}}, nil); err != nil {
		t.Fatal(err)
	}
	for i, r := range c.list {
		r.until("it reads the variable", func() bool {
			v, _, err := r.api.Variables().Read("p", &nomad.QueryOptions{AllowStale: true})
			return err == nil && v.Items["a"] == "b"
		})
		if keys, err := os.ReadDir(filepath.Join(c.dirs[i], "keyring")); err != nil || len(keys) != 1 {
			t.Errorf("server %d has the keys %v, %v", i, keys, err)
		}
	}
	c.stop(c.leader())
	next := c.list[c.leader()]
	next.until("the next leader writes", func() bool {
		_, _, err := next.api.Variables().Create(&nomad.Variable{Path: "q", Items: nomad.VariableItems{"a": "b"}}, nil)
		return err == nil
	})
	if v, _, err := next.api.Variables().Read("q", nil); err != nil || v.Items["a"] != "b" {
		t.Errorf("%+v, %v", v, err)
	}
}
