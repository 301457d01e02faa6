package task

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/mock"
	"berth/op"
)

// notary signs identities: the nth token is "token n".
type notary struct {
	ttl  map[string]time.Duration // by name
	fast time.Duration            // by which its clock is ahead
	most int                      // from then on it has no answer; 0 is without limit

	mu    sync.Mutex
	n     int
	asked []string
	at    []time.Time // when, in the same order
	err   error
}

func (s *notary) sign(_ context.Context, ask []op.IdentityRequest) (out []op.SignedIdentity, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range ask {
		s.asked, s.at = append(s.asked, a.Identity), append(s.at, time.Now())
		if s.err != nil {
			continue
		}
		s.n++
		one := op.SignedIdentity{IdentityRequest: a, JWT: fmt.Sprint("token ", s.n)}
		if d := s.ttl[a.Identity]; d > 0 {
			one.Expiration = time.Now().Add(s.fast + d)
		}
		out = append(out, one)
	}
	if s.most > 0 && s.n > s.most {
		return nil, berth.Errorf(berth.Unavailable, "too many identities")
	}
	return out, s.err
}

func (s *notary) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *notary) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// The identities of a task are where Nomad documents them.
func TestIdentitiesOfATask(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1h"},"Identities":[
		{"Env":true,"File":true}, {"Name":"aws","Audience":["aws"],"File":true}, {"Name":"my-vault","Audience":["v"],"Env":true,"File":true,"Filepath":"local/v/token"},
		{"Name":"unseen","Audience":["x"]}]}`)
	a, n := b.alloc, &notary{}
	at := &attempt{alloc: a, task: a.Job.TaskGroups[0].Tasks[0], place: b.c.Place(), driver: mock.New(true), sign: n.sign}
	r := New(b.c, a)
	made := (&loop{Runner: r}).attempt()
	made.sign = n.sign
	if err := made.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := n.calls(); !slices.Equal(got, []string{"default", "aws", "my-vault"}) {
		t.Errorf("asked for %v", got)
	}
	for file, want := range map[string]string{"secrets/nomad_token": "token 1", "secrets/nomad_aws.jwt": "token 2", "local/v/token": "token 3"} {
		if got, err := os.ReadFile(filepath.Join(b.path, "app", file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	env := strings.Join(made.out.Env, "\n")
	for v, want := range map[string]bool{"NOMAD_TOKEN=token 1": true, "NOMAD_TOKEN_my_vault=token 3": true, "NOMAD_TOKEN_aws": false, "unseen": false} {
		if strings.Contains(env, v) != want {
			t.Errorf("%s in the environment: %v", v, !want)
		}
	}
	// Without a server that answers, it waits; what is refused is an error.
	n.fail(berth.Errorf(berth.Denied, "no"))
	if err := makeIdentities(t.Context(), at); berth.KindOf(err) != berth.Denied {
		t.Errorf("refused: %v", err)
	}
	at.sign = nil
	if err := makeIdentities(t.Context(), at); berth.KindOf(err) != berth.Unavailable {
		t.Errorf("without servers: %v", err)
	}
}

// modes returns the permissions of directories of a task that hold identities.
func modes(t *testing.T, b *bench) string {
	var out []string
	for _, dir := range []string{"secrets", "local", "local/v"} {
		st, err := b.c.AllocDir.Lstat("app/" + dir)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %04o", dir, st.Mode().Perm()))
	}
	return strings.Join(out, ", ")
}

// image is a driver of containers.
type image struct{ *mock.Driver }

func (d image) Capabilities() driver.Capabilities {
	c := d.Driver.Capabilities()
	c.Isolation = driver.ImageIsolation
	return c
}

// Identities leave the task's directories as they are, before the first start and
// when they are renewed: others than the task stay out of its secrets, and users of
// an image may write where they could.
func TestIdentitiesOpenNoDirectory(t *testing.T) {
	t.Run("host", func(t *testing.T) {
		identitiesOpenNoDirectory(t, mock.New(true), "secrets 0700, local 0755, local/v 0755")
	})
	t.Run("image", func(t *testing.T) {
		identitiesOpenNoDirectory(t, image{mock.New(true)}, "secrets 0777, local 0777, local/v 0755")
	})
}

func identitiesOpenNoDirectory(t *testing.T, d driver.Driver, want string) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1000h"},"Identities":[
		{"File":true,"TTL":"1h"}, {"Name":"aws","Audience":["aws"],"TTL":"1h","File":true,"Filepath":"local/aws"}, {"Name":"v","Audience":["v"],"TTL":"1h","File":true,"Filepath":"local/v/token"}]}`)
	synctest.Test(t, func(t *testing.T) {
		n := &notary{ttl: map[string]time.Duration{"default": time.Hour, "aws": time.Hour, "v": time.Hour}}
		b.c.Sign, b.c.Driver = n.sign, d
		_, end := b.agent(t)
		time.Sleep(time.Minute)
		if got := modes(t, b); got != want {
			t.Errorf("started: %s, want %s", got, want)
		}
		time.Sleep(time.Hour)
		if got := modes(t, b); got != want || len(n.calls()) < 6 {
			t.Errorf("renewed, %d identities so far: %s, want %s", len(n.calls()), got, want)
		}
		_ = end()
	})
}

// How often an identity is renewed follows from its TTL, whatever the clocks of agent
// and servers say, and each is renewed before it expires.
func TestRenewalsDoNotDependOnTheClocksOfServers(t *testing.T) {
	for _, fast := range []time.Duration{-time.Hour, -5 * time.Minute, -4 * time.Minute, 4 * time.Minute, time.Hour} {
		for _, mode := range []string{"noop", "restart"} {
			t.Run(fmt.Sprint(fast, " ", mode), func(t *testing.T) { renewalsIn(t, fast, mode) })
		}
	}
}

// renewalsIn runs a task for an hour. The clock of the servers is ahead of the agent's
// by fast.
func renewalsIn(t *testing.T, fast time.Duration, mode string) {
	const ttl = 5 * time.Minute
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1000h"},"Identities":[
		{"Name":"aws","Audience":["aws"],"TTL":"5m","File":true,"ChangeMode":"`+mode+`"}]}`)
	synctest.Test(t, func(t *testing.T) {
		n := &notary{ttl: map[string]time.Duration{"aws": ttl}, fast: fast, most: 100}
		b.c.Sign = n.sign
		r, end := b.agent(t)
		time.Sleep(time.Hour)
		_ = end()
		last := n.at[0]
		for _, at := range append(n.at[1:], time.Now()) {
			if at.Sub(last) >= ttl {
				t.Errorf("no token is valid %v after the last was signed", at.Sub(last))
			}
			last = at
		}
		signed, launches := 20, 1
		if mode == "restart" { // each start has another one signed
			signed, launches = 40, 20
		}
		if s := r.State(); len(n.at) > signed || int(s.Launch) > launches {
			t.Errorf("in an hour, %d tokens and %d launches", len(n.at), s.Launch)
		}
	})
}

func TestWhenAnIdentityIsRenewed(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	const year = 365 * 24 * time.Hour
	for what, x := range map[string]struct {
		signed, ttl, want time.Duration // from now
	}{
		"two thirds of its time":            {-time.Hour, 3 * time.Hour, time.Hour},
		"which are over":                    {-3 * time.Hour, 3 * time.Hour, -time.Hour},
		"a very long time":                  {0, 270 * year, 180 * year},
		"the clock was put back since":      {2 * time.Hour, 3 * time.Hour, 0},
		"it had expired when it was signed": {0, -time.Hour, time.Second},
	} {
		v := Validity{now.Add(x.signed), now.Add(x.signed + x.ttl)}
		if got := v.due(now).Sub(now); got != x.want {
			t.Errorf("%s: in %v, want %v", what, got, x.want)
		}
	}
	if at := (Validity{Signed: now}).due(now); !at.IsZero() {
		t.Errorf("without an end: %v", at)
	}
}

// An identity that expires is signed again before, also after servers were
// away, and the task is told as it asks for.
func TestIdentitiesAreRenewed(t *testing.T) {
	for mode, more := range map[string]string{"noop": "", "signal": `,"ChangeSignal":"SIGHUP"`, "restart": ""} {
		b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1000h"},"Identities":[
			{"Name":"aws","Audience":["aws"],"TTL":"90m","File":true,"ChangeMode":"`+mode+`"`+more+`}, {"Name":"fixed","Audience":["x"],"File":true}]}`)
		synctest.Test(t, func(t *testing.T) {
			n := &notary{ttl: map[string]time.Duration{"aws": 90 * time.Minute}}
			b.c.Sign = n.sign
			contacted := make(chan struct{})
			close(contacted)
			b.contacted = contacted
			token := func() string {
				text, err := os.ReadFile(filepath.Join(b.path, "app/secrets/nomad_aws.jwt"))
				if err != nil {
					t.Error(err)
				}
				return string(text)
			}
			r, end := b.agent(t)
			time.Sleep(59 * time.Minute)
			synctest.Wait()
			if token() != "token 1" || r.State().Launch != 1 {
				t.Errorf("%s: before its time it is %q", mode, token())
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			s := r.State()
			switch {
			case token() == "token 1":
				t.Errorf("%s: it is not renewed", mode)
			case mode == "restart" && s.Launch != 2, mode != "restart" && s.Launch != 1:
				t.Errorf("%s: the launch is %d", mode, s.Launch)
			case (mode == "signal") != strings.Contains(history(s), "Signaling"):
				t.Errorf("%s: its history is %s", mode, history(s))
			}
			if err := end(); err == nil {
				t.Error("the agent ended without its context")
			}
			// Another agent goes on with the same times; its servers are away
			// for a while.
			asked, now := len(n.calls()), token()
			r, end = b.agent(t)
			time.Sleep(30 * time.Minute)
			synctest.Wait()
			if len(n.calls()) != asked {
				t.Errorf("%s: after a restart of the agent it asked for %v", mode, n.calls()[asked:])
			}
			n.fail(berth.Errorf(berth.Unavailable, "no leader"))
			time.Sleep(40 * time.Minute)
			n.fail(nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			if token() == now {
				t.Errorf("%s: it is not renewed once servers are back", mode)
			}
			r.Kill(Kill{Reason: "the test is over"})
			time.Sleep(time.Minute)
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}
