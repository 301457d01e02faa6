package rotate_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"berth"
	"berth/internal/keyring"
	"berth/internal/leader"
	"berth/internal/leader/rotate"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// world is a state with the first root key, and the ring that opens it.
type world struct {
	store *state.Store
	log   *statetest.Log
	ring  *keyring.Ring
	dir   string
}

func newWorld(t testing.TB) *world {
	w := &world{dir: t.TempDir()}
	w.ring = keyring.New("", keyring.NewFiles(w.dir))
	w.store, w.log = statetest.New(t)
	k, err := w.ring.Make(nil)
	if err != nil {
		t.Fatal(err)
	}
	k.CreateTime = 1
	w.log.Must(t, &state.AddRootKey{Key: k, First: true})
	return w
}

// step makes one step of a controller that remembers nothing, as after a kill,
// and returns the number of commands.
func (w *world) step(t testing.TB, now time.Time) int {
	t.Helper()
	do, _ := rotate.New(w.ring, rotate.Ages{}, slog.New(slog.DiscardHandler)).Step(w.log.Tip(), now)
	leader.Stamp(w.log.Tip().Term, do...)
	for _, c := range do {
		w.log.Must(t, c)
	}
	return len(do)
}

// put writes a variable.
func (w *world) put(t testing.TB, path, value string) {
	t.Helper()
	row := w.log.Tip().ActiveKey()
	k, err := w.ring.Open(row)
	if err != nil {
		t.Fatal(err)
	}
	data, err := k.Seal(berth.VariableKey{Namespace: "default", Path: path}, map[string]string{"v": value})
	if err != nil {
		t.Fatal(err)
	}
	w.log.Must(t, &state.PutVariable{Namespace: "default", Path: path, KeyID: row.ID, Data: data, Size: len(value) + 1, Now: 1})
}

// get reads a variable with a ring that remembers nothing.
func (w *world) get(path string) (string, error) {
	v := w.log.Tip().Variable(berth.VariableKey{Namespace: "default", Path: path})
	if v == nil {
		return "", berth.Errorf(berth.NotFound, "no variable %q", path)
	}
	k, err := keyring.New("", keyring.NewFiles(w.dir)).Open(w.log.Tip().RootKey(v.KeyID))
	if err != nil {
		return "", err
	}
	items, err := k.Open(v)
	return items["v"], err
}

// rotates adds a root key.
func (w *world) rotates(t testing.TB, full bool) {
	t.Helper()
	k, err := w.ring.Make(nil)
	if err != nil {
		t.Fatal(err)
	}
	k.CreateTime = 2
	w.log.Must(t, &state.AddRootKey{Key: k, Full: full})
}

// Without keys, and while none is on its way, there is nothing to do.
func TestNothingToDo(t *testing.T) {
	w := newWorld(t)
	if n := w.step(t, time.Unix(2, 0)); n != 0 {
		t.Errorf("with a key it does %d things", n)
	}
	w.store, w.log = statetest.New(t)
	if n := w.step(t, time.Unix(2, 0)); n != 0 {
		t.Errorf("without a key it does %d things", n)
	}
}

// A key that is published first becomes active at its time.
func TestPublishedKeys(t *testing.T) {
	w := newWorld(t)
	k, err := w.ring.Make(nil)
	if err != nil {
		t.Fatal(err)
	}
	k.State, k.CreateTime, k.PublishTime = berth.KeyPrepublished, 2, time.Unix(100, 0).UnixNano()
	w.log.Must(t, &state.AddRootKey{Key: k})
	_, again := rotate.New(w.ring, rotate.Ages{}, slog.New(slog.DiscardHandler)).Step(w.log.Tip(), time.Unix(50, 0))
	if n := w.step(t, time.Unix(50, 0)); n != 0 || !again.Equal(time.Unix(100, 0)) || w.log.Tip().ActiveKey().ID == k.ID {
		t.Errorf("before its time %d commands; again at %s", n, again)
	}
	if w.step(t, time.Unix(100, 0)); w.log.Tip().ActiveKey().ID != k.ID {
		t.Error("at its time it is not active")
	}
}

// A full rotation ends with every variable under the new key, whatever is
// written meanwhile, and though the leader is killed after each of its steps.
func TestFullRotation(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(r *rapid.T) {
		want := map[string]string{}
		write := func(path, value string) {
			w.put(t, path, value)
			want[path] = value
		}
		for i := range rapid.IntRange(0, 250).Draw(r, "variables") {
			write(fmt.Sprintf("p/%d", i), rapid.StringMatching(`[a-z]{0,20}`).Draw(r, "value"))
		}
		w.rotates(t, true)
		last := w.log.Tip().ActiveKey().ID
		for n := 0; w.step(t, time.Unix(3, 0)) > 0; n++ {
			if n > 100 {
				r.Fatal("it does not end")
			}
			switch rapid.IntRange(0, 3).Draw(r, "meanwhile") {
			case 0:
				write(fmt.Sprintf("p/%d", rapid.IntRange(0, 300).Draw(r, "path")), "changed")
			case 1:
				var saved bytes.Buffer // the state goes through a snapshot
				if err := w.log.Tip().Save(&saved); err != nil {
					r.Fatal(err)
				}
				if loaded, err := state.Load(&saved); err != nil || loaded.Hash() != w.log.Tip().Hash() {
					r.Fatalf("it is not saved as it is: %v", err)
				}
			case 2:
				if n < 3 {
					w.rotates(t, true)
					last = w.log.Tip().ActiveKey().ID
				}
			}
		}
		for k := range w.log.Tip().RootKeys() {
			if k.State == berth.KeyRekeying || k.ID != last && w.log.Tip().VariablesUnder(k.ID) > 0 {
				r.Errorf("key %s is %s and encrypts %d variables", k.ID, k.State, w.log.Tip().VariablesUnder(k.ID))
			}
		}
		for path, value := range want {
			if got, err := w.get(path); err != nil || got != value {
				r.Fatalf("%s is %q, not %q: %v", path, got, value, err)
			}
		}
	})
}

// Neither the state nor a saved one nor a command has a byte of what was
// written.
func TestNothingIsReadable(t *testing.T) {
	w := newWorld(t)
	const canary = "canary-in-a-variable"
	w.put(t, "p", canary)
	w.rotates(t, true)
	var found bytes.Buffer
	for {
		do, _ := rotate.New(w.ring, rotate.Ages{}, slog.New(slog.DiscardHandler)).Step(w.log.Tip(), time.Unix(3, 0))
		if len(do) == 0 {
			break
		}
		for _, c := range do {
			found.Write(state.AppendCommand(nil, c))
			w.log.Must(t, c)
		}
	}
	for v := range w.log.Tip().Variables() {
		fmt.Fprintf(&found, "%s %+v", v.Data, *v)
	}
	for k := range w.log.Tip().RootKeys() {
		fmt.Fprintf(&found, "%s %+v", k.Wrapped.Data, *k)
	}
	var saved bytes.Buffer
	if err := w.log.Tip().Save(&saved); err != nil {
		t.Fatal(err)
	}
	w.log.Tip().Dump(&found)
	if got, err := w.get("p"); err != nil || got != canary {
		t.Fatalf("it is %q: %v", got, err)
	}
	if bytes.Contains(found.Bytes(), []byte(canary)) || bytes.Contains(saved.Bytes(), []byte(canary)) {
		t.Error("the value is there in plain text")
	}
}

// The active key is replaced at its age. A key that is out of use is removed after
// its time, and one that still encrypts something is not.
func TestKeysAge(t *testing.T) {
	w := newWorld(t)
	ages := rotate.Ages{Rotate: 720 * time.Hour, Remove: time.Hour, Interval: 10 * time.Minute}
	c := rotate.New(w.ring, ages, slog.New(slog.DiscardHandler))
	first := w.log.Tip().ActiveKey()
	made := time.Unix(0, first.CreateTime)
	if do, again := c.Step(w.log.Tip(), made.Add(ages.Rotate-time.Second)); len(do) > 0 || again.IsZero() || again.After(made.Add(ages.Rotate)) {
		t.Errorf("too early: %v, then %v", do, again)
	}
	now := made.Add(ages.Rotate)
	do, _ := c.Step(w.log.Tip(), now)
	w.log.Must(t, do...)
	second := w.log.Tip().ActiveKey()
	if len(do) != 1 || second.ID == first.ID {
		t.Fatalf("the key was not replaced: %v", do)
	}
	if do, _ := c.Step(w.log.Tip(), now.Add(ages.Remove-time.Minute)); len(do) > 0 {
		t.Errorf("removed too early: %v", do)
	}
	do, _ = c.Step(w.log.Tip(), now.Add(2*ages.Remove))
	if used := w.log.Tip().VariablesUnder(first.ID) > 0; used == (len(do) == 1) {
		t.Errorf("a key that encrypts something: %v, removed: %v", used, do)
	}
	w.log.Must(t, do...)
}
