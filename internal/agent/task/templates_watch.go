package task

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/failpoint"
)

// What a task that runs is told when its templates change.

// watchTemplates has the templates of a launch that runs rendered again whenever
// what they show has changed, until the launch has ended.
func (l *loop) watchTemplates() {
	_, t, _ := l.spec()
	if !slices.ContainsFunc(t.Templates, func(t berth.Template) bool { return !t.Once }) {
		return
	}
	l.mu.Lock()
	over, launch := l.over, l.state.Launch
	l.mu.Unlock()
	l.background(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-over:
				cancel()
			case <-ctx.Done():
			}
		}()
		l.keepRendered(ctx, launch)
		l.wantTurn(launch, false)
	})
}

// keepRendered renders, compares, tells the task, and waits for a change, until
// ctx ends.
func (l *loop) keepRendered(ctx context.Context, launch uint64) {
	has := l.State().Rendered // only this changes it as long as the launch runs
	r, err := l.rendererOfRunning(ctx)
	for pause := signPause; ; {
		if err == nil {
			has, err = l.renderAgain(ctx, r, launch, has)
		}
		if err == nil {
			pause = signPause
			err = r.wait(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue
		}
		l.c.Log.Warn("templates of a task that runs cannot be rendered again; trying again", "task", l.c.Name, "error", err)
		pause = min(2*pause, longSignPause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			r, err = l.rendererOfRunning(ctx)
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// rendererOfRunning returns a renderer for a task that runs.
func (l *loop) rendererOfRunning(ctx context.Context) (*renderer, error) {
	at := l.attempt()
	for _, h := range hooks {
		switch h.name {
		case "secrets", "environment", "user":
			if err := h.run(ctx, at); err != nil {
				return nil, err
			}
		}
	}
	return newRenderer(at)
}

// renderAgain renders the templates and, if one is different from what the task
// has, writes it and tells the task. It returns the hashes of what the task has then.
func (l *loop) renderAgain(ctx context.Context, r *renderer, launch uint64, before []string) (has []string, err error) {
	changed, err := l.changed(ctx, r, before)
	if err != nil {
		return before, err
	}
	if len(changed) == 0 {
		l.wantTurn(launch, false)
		return before, nil
	}
	// What changes together should be told once: wait until it is quiet.
	if quiet, most := r.at.inputs.settle(r.at.task, changed); quiet > 0 {
		for end := time.Now().Add(most); ; {
			last := slices.Clone(r.hashes())
			wait, cancel := context.WithTimeout(ctx, min(quiet, time.Until(end)))
			err := r.wait(wait)
			cancel()
			if ctx.Err() != nil {
				return before, ctx.Err()
			}
			if err != nil || !time.Now().Before(end) {
				break
			}
			if _, err = l.changed(ctx, r, before); err != nil {
				return before, err
			}
			if slices.Equal(last, r.hashes()) {
				break
			}
		}
	}
	if changed, err = l.changed(ctx, r, before); err != nil {
		return before, err
	}
	now, inTurn := l.split(r.at.task, changed)
	texts := r.hashes()
	for _, i := range now {
		if err := r.at.writeTemplate(i, r.output[i]); err != nil {
			return before, err
		}
	}
	for _, i := range inTurn { // what the task has of these is what it was started with
		texts[i] = ""
		if i < len(before) {
			texts[i] = before[i]
		}
	}
	if len(now) > 0 {
		if err := l.tellRendered(ctx, r.at.task, now, texts); err != nil {
			return before, err
		}
	}
	l.wantTurn(launch, len(inTurn) > 0)
	return texts, nil
}

// split returns which of the templates that changed are told to the task now, and
// which when its allocation has its turn to restart.
func (l *loop) split(t *berth.Task, changed []int) (now, inTurn []int) {
	for _, i := range changed {
		if x := &t.Templates[i]; x.Rolling && l.c.Turn != nil {
			inTurn = append(inTurn, i)
		} else {
			now = append(now, i)
		}
	}
	return now, inTurn
}

// wantTurn tells whether the task wants to restart in turn.
func (l *loop) wantTurn(launch uint64, wanted bool) {
	if l.c.Turn != nil {
		l.c.Turn(launch, wanted)
	}
}

// changed renders and returns the numbers of the templates that differ from what
// the task has. What is missing now is no change.
func (l *loop) changed(ctx context.Context, r *renderer, before []string) (out []int, err error) {
	missing, err := r.render(ctx)
	if err != nil || len(missing) > 0 {
		return nil, err
	}
	for i, h := range r.hashes() {
		if t := &r.at.task.Templates[i]; !t.Once && (i >= len(before) || before[i] != h) {
			out = append(out, i)
		}
	}
	return out, nil
}

// settle returns how long nothing may change before changed templates are
// written, and after how long they are in any case.
func (in *Inputs) settle(t *berth.Task, changed []int) (quiet, most time.Duration) {
	for _, i := range changed {
		w := t.Templates[i].Wait
		if w == nil {
			w = in.Wait
		}
		if w == nil {
			continue
		}
		low := w.Min
		high := max(w.Max, 4*w.Min)
		if b := in.WaitBounds; b != nil {
			low = max(low, b.Min)
			if b.Max > 0 {
				low, high = min(low, b.Max), min(high, b.Max)
			}
			high = max(high, low)
		}
		quiet, most = max(quiet, low), max(most, high)
	}
	return quiet, most
}

// tellRendered does what the changed templates ask for. Only then it records their
// texts: if the agent is killed before, the next one does it.
func (l *loop) tellRendered(ctx context.Context, t *berth.Task, changed []int, texts []string) error {
	_ = failpoint.Hit("template/tell")
	var signals []string
	var scripts []*berth.ChangeScript
	restart, splay := false, time.Duration(0)
	for _, i := range changed {
		x := &t.Templates[i]
		switch x.ChangeMode {
		case berth.ChangeRestart, "":
			restart = true
		case berth.ChangeSignal:
			if !slices.Contains(signals, x.ChangeSignal) {
				signals = append(signals, x.ChangeSignal)
			}
		case berth.ChangeRun:
			if x.ChangeScript != nil {
				scripts = append(scripts, x.ChangeScript)
			}
		default:
			continue
		}
		splay = max(splay, x.Splay)
	}
	if restart || len(signals) > 0 || len(scripts) > 0 {
		timer := time.NewTimer(time.Duration(l.c.Chance() * float64(splay)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
	if restart {
		l.post(Again{Reason: "Template with change_mode restart re-rendered"}) // the next launch records what it has
		return nil
	}
	for _, s := range signals {
		l.post(Signal{s, "Template re-rendered"})
	}
	for _, s := range scripts {
		l.runScript(ctx, s)
	}
	l.post(Rendered{Texts: texts})
	return nil
}

// mostScriptOutput bounds what is shown of a script's output.
const mostScriptOutput = 512

// runScript runs the script of a template in the task, which fails with it if it
// says so.
func (l *loop) runScript(ctx context.Context, s *berth.ChangeScript) {
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out bytes.Buffer
	code := 0
	run, err := l.Execer()
	if err == nil {
		code, err = run(ctx, &driver.Exec{Command: append([]string{s.Command}, s.Args...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out})
	}
	said := strings.TrimSpace(out.String())
	said = said[:min(len(said), mostScriptOutput)]
	switch {
	case err != nil:
		said = err.Error()
	case code == 0:
		l.post(Told{Message: "Template change script " + s.Command + " succeeded"})
		return
	}
	message := "Template change script " + s.Command + " failed: " + said
	l.post(Told{Message: message})
	if s.FailOnError {
		l.post(Order{Kill{Reason: message, Failed: true}})
	}
}
