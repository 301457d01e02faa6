package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"berth"
	"berth/internal/acl"
	"berth/internal/admit"
	"berth/internal/decode"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// decider is a write handler of any types: it decodes a body, decides, and
// returns how the answer is made.
type decider func(t *testing.T, w *Write, body string) (cmds []state.Command, answer func(*Outcome, error) (any, error), err error)

func deciderOf[In, Out any](decide func(*Write, *In) (Change[Out], error)) decider {
	return func(t *testing.T, w *Write, body string) ([]state.Command, func(*Outcome, error) (any, error), error) {
		tree, err := decode.ParseJSON([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		in := new(In)
		if s, ok := any(in).(interface{ Shape(decode.Tree) decode.Tree }); ok {
			tree = s.Shape(tree)
		}
		if err := admit.Fill(in, tree, "body").Err(); err != nil {
			t.Fatal(err)
		}
		before := text(in)
		c, err := decide(w, in)
		if after := text(in); after != before {
			t.Errorf("the handler changed its input from %s to %s", before, after)
		}
		return c.Commands, func(o *Outcome, err error) (out any, _ error) {
			switch {
			case err != nil && c.Refused != nil:
				return c.Refused(o, err)
			case err != nil:
				return nil, err
			case c.Answer == nil:
				return out, nil
			}
			o.Index = max(o.Index, c.Index)
			return c.Answer(o), nil
		}, err
	}
}

// alone is a server without keys.
var alone = &Server{}

var deciders = map[string]decider{
	"register": deciderOf(registerJob), "validate": deciderOf(validateJob), "plan": deciderOf(planJob), "stop": deciderOf(stopJob),
	"dispatch": deciderOf(dispatchJob), "scale": deciderOf(scaleJob), "revert": deciderOf(revertJob), "tag": deciderOf(tagVersion),
	"drain": deciderOf(drainNode), "eligibility": deciderOf(setEligibility), "scheduler": deciderOf(writeScheduler),
	"report": deciderOf(reportAllocs), "node-register": deciderOf(alone.registerNode), "node-beat": deciderOf(alone.beatNode),
	"delete-evals": deciderOf(deleteEvals), "gc": deciderOf(collectGarbage),
}

// Each request shows the commands that its handler decides on, at a fixed time
// and with a fixed seed, what the log says to them, and the answer. Every
// handler decides twice, as when a term ends, and must decide the same.
func TestWriteHandlers(t *testing.T) {
	datadriven.Walk(t, "testdata/write", func(t *testing.T, path string) {
		store, log := statetest.New(t, statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000))
		now := time.Unix(1_000_000, 0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			now = now.Add(time.Second)
			snap := store.Snapshot()
			hash := snap.Hash()
			w := func() *Write {
				w := &Write{
					ctx:      t.Context(),
					Snapshot: snap, Region: "global", Options: op.Write{Namespace: berth.DefaultNamespace}, Now: now,
					Rand: rand.NewChaCha8([32]byte{byte(snap.Index)}), authorize: func(Caller, acl.Capability, string) error { return nil },
				}
				d.MaybeScanArgs(t, "token", &w.Options.IdempotencyToken)
				d.MaybeScanArgs(t, "secret", &w.Options.AuthToken)
				return w
			}
			decide := deciders[d.Cmd]
			if decide == nil {
				t.Fatalf("%s: no handler %q", d.Pos, d.Cmd)
			}
			first, _, _ := decide(t, w(), d.Input)
			cmds, answer, err := decide(t, w(), d.Input)
			if !reflect.DeepEqual(first, cmds) {
				t.Errorf("%s: the handler decides %s once, and then %s", d.Pos, shown(first), shown(cmds))
			}
			if snap.Hash() != hash {
				t.Errorf("%s: the handler changed the snapshot", d.Pos)
			}
			if err != nil {
				return problem(err)
			}
			out := shown(cmds)
			o := &Outcome{Contact: Contact{TTL: time.Second, Leader: "10.0.0.1:4647"}}
			if len(cmds) > 0 {
				var results []state.Result
				if results, err = log.Propose(t.Context(), cmds...); err == nil {
					o.Index = results[len(results)-1].Index
				}
			}
			o.After = store.Snapshot()
			v, err := answer(o, err)
			if err != nil {
				return out + problem(err)
			}
			return out + "answer " + brief(v) + "\n"
		})
	})
}

func problem(err error) string { return fmt.Sprintf("%s: %v\n", berth.KindOf(err), err) }

// shown returns one line a command.
func shown(cmds []state.Command) string {
	var b strings.Builder
	for _, c := range cmds {
		fmt.Fprintf(&b, "%s %s\n", reflect.TypeOf(c).Elem().Name(), brief(c))
	}
	return b.String()
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// brief returns a value as JSON without what is empty in it; of a job or a node
// its name is enough.
func brief(v any) string {
	var tree any
	if err := json.Unmarshal([]byte(text(v)), &tree); err != nil {
		return err.Error()
	}
	return text(pruned(tree))
}

func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if x = pruned(x); x != nil {
				out[k] = x
			}
			if whole, ok := x.(map[string]any); ok && (k == "Job" || k == "Node") && whole["Name"] != nil {
				out[k] = whole["Name"]
			}
		}
		if len(out) > 0 {
			return out
		}
	case []any:
		var out []any
		for _, x := range v {
			out = append(out, pruned(x))
		}
		if len(out) > 0 {
			return out
		}
	case string:
		if strings.Trim(v, "0-") != "" {
			return v
		}
	case float64:
		if v != 0 {
			return v
		}
	case bool:
		if v {
			return v
		}
	}
	return nil
}

// scripted is a log that answers each proposal with the next of some errors.
type scripted struct {
	state.Log
	errs     []error
	proposed []int // how many commands each proposal had
}

func (l *scripted) Propose(_ context.Context, cmds ...state.Command) ([]state.Result, error) {
	err := l.errs[len(l.proposed)]
	l.proposed = append(l.proposed, len(cmds))
	return []state.Result{{Index: uint64(10 * len(l.proposed))}}, err
}

// A write may be tried again only if nothing of it can be in the log.
func TestWhatIsCertainlyNotProposed(t *testing.T) {
	lost := fmt.Errorf("%w: the term is over", state.ErrLost)
	unknown := fmt.Errorf("%w: %w", state.ErrLost, state.ErrUnknown)
	refused := berth.Errorf(berth.Conflict, "no")
	three := []state.Command{&state.DeleteRows{}, &state.DeleteRows{}, &state.DeleteRows{}}
	for _, c := range []struct {
		name     string
		apart    bool
		errs     []error
		index    uint64
		err      error
		again    bool
		proposed []int
	}{
		{"together", false, []error{nil}, 10, nil, false, []int{3}},
		{"apart", true, []error{nil, nil, nil}, 30, nil, false, []int{1, 1, 1}},
		{"the term was over", false, []error{lost}, 0, lost, true, []int{3}},
		{"it may have been proposed", false, []error{unknown}, 0, unknown, false, []int{3}},
		{"it was refused", true, []error{refused}, 0, refused, false, []int{1}},
		{"the term ended after the first", true, []error{nil, lost}, 0, lost, false, []int{1, 1}},
	} {
		log := &scripted{errs: c.errs}
		index, err := commit(t.Context(), log, three, c.apart)
		_, again := errors.AsType[*termOver](err)
		if index != c.index || !errors.Is(err, c.err) || again != c.again || !slices.Equal(log.proposed, c.proposed) {
			t.Errorf("%s: index %d, again %v, proposals of %v commands, %v", c.name, index, again, log.proposed, err)
		}
	}
}
