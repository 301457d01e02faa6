package berth

import (
	"math"
	"testing"
	"time"
)

func TestRescheduleWait(t *testing.T) {
	const s = time.Second
	policy := func(f string, delay, most time.Duration) ReschedulePolicy {
		return ReschedulePolicy{DelayFunction: f, Delay: delay, MaxDelay: most}
	}
	for _, tt := range []struct {
		name string
		p    ReschedulePolicy
		want []time.Duration // of the first, second, … replacement
	}{
		{"constant", policy(DelayConstant, 30*s, 0), []time.Duration{30 * s, 30 * s, 30 * s}},
		{"constant is not capped", policy(DelayConstant, 30*s, 10*s), []time.Duration{30 * s, 30 * s}},
		{"exponential", policy(DelayExponential, 30*s, 0), []time.Duration{30 * s, 60 * s, 120 * s, 240 * s, 480 * s}},
		{"exponential, capped", policy(DelayExponential, 30*s, 100*s), []time.Duration{30 * s, 60 * s, 100 * s, 100 * s}},
		{"exponential, cap is a step", policy(DelayExponential, 30*s, 60*s), []time.Duration{30 * s, 60 * s, 60 * s}},
		{"exponential, cap below delay", policy(DelayExponential, 30*s, 10*s), []time.Duration{10 * s, 10 * s}},
		{"fibonacci", policy(DelayFibonacci, 5*s, 0), []time.Duration{5 * s, 5 * s, 10 * s, 15 * s, 25 * s, 40 * s}},
		{"fibonacci, capped", policy(DelayFibonacci, 5*s, 12*s), []time.Duration{5 * s, 5 * s, 10 * s, 12 * s, 12 * s}},
		{"no delay", policy(DelayExponential, 0, 0), []time.Duration{0, 0, 0}},
	} {
		for n, want := range tt.want {
			if got := tt.p.Wait(n); got != want {
				t.Errorf("%s: Wait(%d) = %v, want %v", tt.name, n, got, want)
			}
		}
	}
	// However often, the wait neither overflows nor takes long to work out.
	for _, f := range []string{DelayConstant, DelayExponential, DelayFibonacci} {
		for _, delay := range []time.Duration{1, s, math.MaxInt64 / 3, math.MaxInt64} {
			for _, most := range []time.Duration{0, time.Hour, math.MaxInt64} {
				p := policy(f, delay, most)
				last := time.Duration(0)
				for _, n := range []int{0, 1, 2, 3, 10, 61, 62, 63, 64, 91, 92, 93, 1000, math.MaxInt} {
					got := p.Wait(n)
					if got < last {
						t.Errorf("%s %v up to %v: Wait(%d) = %v is less than the one before, %v", f, delay, most, n, got, last)
					}
					if f != DelayConstant && most > 0 && got > most {
						t.Errorf("%s %v up to %v: Wait(%d) = %v", f, delay, most, n, got)
					}
					last = got
				}
			}
		}
	}
}

func TestRescheduleEnabled(t *testing.T) {
	for _, tt := range []struct {
		p    *ReschedulePolicy
		want bool
	}{
		{nil, false},
		{&ReschedulePolicy{}, false},
		{&ReschedulePolicy{Attempts: 1}, false},
		{&ReschedulePolicy{Interval: time.Hour}, false},
		{&ReschedulePolicy{Attempts: 1, Interval: time.Hour}, true},
		{&ReschedulePolicy{Unlimited: true}, true},
	} {
		if got := tt.p.Enabled(); got != tt.want {
			t.Errorf("%+v: %v", tt.p, got)
		}
	}
}

// The disconnect block and the fields from before it mean the same.
func TestAway(t *testing.T) {
	stop := time.Minute
	for _, tt := range []struct {
		name    string
		g       TaskGroup
		lost    time.Duration
		replace bool
		keep    string
		stop    time.Duration
	}{
		{"nothing said", TaskGroup{}, 0, true, KeepBestScore, 0},
		{"an empty block", TaskGroup{Disconnect: &DisconnectStrategy{Replace: true, Reconcile: KeepBestScore}}, 0, true, KeepBestScore, 0},
		{"a block", TaskGroup{Disconnect: &DisconnectStrategy{LostAfter: time.Hour, Reconcile: KeepOriginal}}, time.Hour, false, KeepOriginal, 0},
		{"neither lost nor replaced", TaskGroup{Disconnect: &DisconnectStrategy{StopOnClientAfter: &stop, Reconcile: KeepOriginal}}, MaxDuration, false, KeepOriginal, stop},
		{"before the block", TaskGroup{MaxClientDisconnect: time.Hour}, time.Hour, true, KeepBestScore, 0},
		{"before the block, not replaced", TaskGroup{MaxClientDisconnect: time.Hour, PreventRescheduleOnLost: true}, time.Hour, false, KeepBestScore, 0},
		{"before the block, without end", TaskGroup{PreventRescheduleOnLost: true}, MaxDuration, false, KeepBestScore, 0},
		{"before the block, stopped", TaskGroup{StopAfterClientDisconnect: stop}, 0, true, KeepBestScore, stop},
	} {
		lost, replace, keep := tt.g.Away()
		if lost != tt.lost || replace != tt.replace || keep != tt.keep || tt.g.StopAway() != tt.stop {
			t.Errorf("%s: %v, %v, %s, %v", tt.name, lost, replace, keep, tt.g.StopAway())
		}
	}
}
