package expire_test

import (
	"fmt"
	"testing"
	"time"

	"berth"
	"berth/internal/leader/expire"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// What has expired is deleted, however much it is, and nothing else; then nothing
// is done until the interval is over.
func TestWhatHasExpiredIsDeleted(t *testing.T) {
	const old = state.MaxACLRows + 3
	var tokens []*berth.ACLToken
	token := func(n int, expires int64) {
		tokens = append(tokens, &berth.ACLToken{AccessorID: fmt.Sprintf("%08d", n), SecretHash: [32]byte{byte(n), byte(n >> 8), byte(n >> 16), 1}, Type: berth.TokenManagement, CreateTime: 1, ExpirationTime: expires})
	}
	for n := range old {
		token(n, 100)
	}
	token(old, 0) // never
	token(old+1, 1000)
	store, log := statetest.New(t)
	for len(tokens) > 0 {
		n := min(len(tokens), state.MaxACLRows)
		log.Must(t, &state.UpsertACLTokens{Tokens: tokens[:n]})
		tokens = tokens[n:]
	}
	log.Must(t, &state.PutOneTimeToken{Token: &berth.OneTimeToken{SecretHash: [32]byte{1}, Sealed: []byte("x"), AccessorID: fmt.Sprintf("%08d", old), ExpirationTime: 100}})
	c := expire.New(0, false)
	now := time.Unix(0, 200)
	steps := 0
	for {
		do, again := c.Step(store.Snapshot(), now)
		if len(do) == 0 {
			if again != now.Add(expire.Interval) {
				t.Errorf("the next look is at %v", again)
			}
			break
		}
		if steps++; steps > 10 {
			t.Fatal("it does not come to an end")
		}
		log.Must(t, do...)
	}
	left := 0
	for range store.Snapshot().ACLTokens() {
		left++
	}
	for range store.Snapshot().OneTimeTokens() {
		t.Error("the one-time token is there")
	}
	if left != 2 || steps != 2 {
		t.Errorf("%d tokens are left after %d steps", left, steps)
	}
	now = time.Unix(0, 2000)
	if do, _ := c.Step(store.Snapshot(), now); len(do) > 0 {
		t.Error("it does not wait for its interval")
	}
	if do, _ := c.Step(store.Snapshot(), now.Add(expire.Interval)); len(do) != 1 {
		t.Error("it does not look again")
	}
}
