package consensus

import (
	"errors"
	"log/slog"
	"testing"

	"berth/op"
)

// A server applied entry 7 and another one says that it cannot. The question
// stands until a majority has come to the entry: only then is it known who is
// wrong. A server that forgot it would lead on with a wrong state.
func TestAnAccusationStandsUntilItIsDecided(t *testing.T) {
	var (
		applied = op.Ballot{Applied: 7}
		later   = op.Ballot{Applied: 9}
		behind  = op.Ballot{Applied: 6}
		refuses = op.Ballot{Applied: 6, Disputed: 7}
		void    = op.Ballot{Applied: 9, Void: []uint64{3, 7}}
		other   = op.Ballot{Applied: 7, Disputed: 8}
	)
	for name, test := range map[string]struct {
		voters  int
		ballots []op.Ballot // of the others that answer
		stands  bool
		wrong   bool
	}{
		"nobody else answers":                       {voters: 3, stands: true},
		"the accuser alone answers":                 {voters: 3, ballots: []op.Ballot{refuses}, stands: true},
		"the third has not come to the entry":       {voters: 3, ballots: []op.Ballot{refuses, behind}, stands: true},
		"the third cannot apply it either":          {voters: 3, ballots: []op.Ballot{refuses, refuses}, wrong: true},
		"it is void for the others":                 {voters: 3, ballots: []op.Ballot{void, void}, wrong: true},
		"it is void for one, and the other waits":   {voters: 3, ballots: []op.Ballot{void, refuses}, wrong: true},
		"the third applied it":                      {voters: 3, ballots: []op.Ballot{refuses, applied}},
		"the third is far behind it":                {voters: 3, ballots: []op.Ballot{refuses, later}},
		"the third cannot apply another entry":      {voters: 3, ballots: []op.Ballot{refuses, other}},
		"one against one":                           {voters: 2, ballots: []op.Ballot{refuses}, stands: true},
		"the accuser of two was refilled":           {voters: 2, ballots: []op.Ballot{later}},
		"two of five refuse, two have not come":     {voters: 5, ballots: []op.Ballot{refuses, refuses, behind, behind}, stands: true},
		"two of five refuse, two do not answer":     {voters: 5, ballots: []op.Ballot{refuses, refuses}, stands: true},
		"two of five refuse, one more applied it":   {voters: 5, ballots: []op.Ballot{refuses, refuses, applied}, stands: true},
		"three of five refuse":                      {voters: 5, ballots: []op.Ballot{refuses, refuses, refuses}, wrong: true},
		"three of five applied it with this server": {voters: 5, ballots: []op.Ballot{refuses, applied, later}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{config: Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}, fsm: &fsm{broken: make(chan struct{})}}
			v := newVoter(s)
			v.accuse(7)
			v.judgeAccused(make([]string, test.voters), append(test.ballots, applied))
			if got := len(v.accused) > 0; got != test.stands {
				t.Errorf("the accusation stands: %t, want %t", got, test.stands)
			}
			if v.open() != test.stands {
				t.Errorf("the vote is open: %t, want %t", v.open(), test.stands)
			}
			if got := errors.Is(s.fsm.failure(), ErrDiffers); got != test.wrong {
				t.Errorf("this server is wrong: %t, want %t (%v)", got, test.wrong, s.fsm.failure())
			}
		})
	}
}

// Two servers stop at two entries. Each question is decided by itself, whichever
// came first.
func TestAccusationsAreDecidedOneByOne(t *testing.T) {
	s := &Server{config: Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}, fsm: &fsm{broken: make(chan struct{})}}
	v := newVoter(s)
	for _, entry := range []uint64{7, 8, 7} {
		v.accuse(entry)
	}
	voters := make([]string, 5)
	own, at7, at8 := op.Ballot{Applied: 9}, op.Ballot{Applied: 6, Disputed: 7}, op.Ballot{Applied: 7, Disputed: 8}
	v.judgeAccused(voters, []op.Ballot{own, at7, at8})
	if len(v.accused) != 2 {
		t.Fatalf("%d accusations stand, want 2", len(v.accused))
	}
	v.judgeAccused(voters, []op.Ballot{own, at7, at8, at8}) // entry 7 was applied by three of five
	if len(v.accused) != 1 || v.accused[0] != 8 || s.fsm.failure() != nil {
		t.Fatalf("%v stand, want that of entry 8; %v", v.accused, s.fsm.failure())
	}
	v.judgeAccused(voters, []op.Ballot{own, at7, at8, at8, at8})
	if len(v.accused) != 0 || !errors.Is(s.fsm.failure(), ErrDiffers) {
		t.Fatalf("%v stand, and the server ended with %v", v.accused, s.fsm.failure())
	}
}
