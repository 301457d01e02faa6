package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/redact"
)

// bundle is what "operator debug" collects. Files are kept in memory until all
// are there: a text that is removed from one is removed from the others too.
type bundle struct {
	call  *call
	debug *debugFlags
	began time.Time

	mu     sync.Mutex // guards the fields below
	files  []bundleFile
	failed map[string]string // why a file could not be read, by name
	raw    []bundleFile      // JSON that is not redacted yet
}

// bundleFile is one file of a bundle.
type bundleFile struct {
	name string
	text []byte
}

// put adds what was read, or notes why it could not be.
func (b *bundle) put(name string, text []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Names of servers become names of files.
	name = strings.ReplaceAll(strings.ReplaceAll(name, "..", "_"), "\\", "_")
	if err != nil {
		if b.failed == nil {
			b.failed = map[string]string{}
		}
		b.failed[name] = err.Error()
		b.note("%s: %s", name, err)
		return
	}
	b.raw = append(b.raw, bundleFile{name, text})
	b.note("%s: %d bytes", name, len(text))
}

// collect reads everything and redacts it.
func (b *bundle) collect(ctx context.Context) error {
	targets, err := b.debug.targets(ctx, b.call)
	if err != nil {
		return err
	}
	stale := url.Values{}
	if *b.debug.stale {
		stale.Set("stale", "true")
	}
	var running sync.WaitGroup
	if *b.debug.duration > 0 {
		during, stop := context.WithTimeout(ctx, *b.debug.duration)
		defer stop()
		for _, t := range targets {
			running.Go(func() { b.logs(during, t) })
		}
		if topics := *b.debug.topics; len(topics) > 0 && !slices.Contains(topics, "none") {
			running.Go(func() { b.events(during) })
		}
		running.Go(func() { b.metrics(during) })
	} else {
		text, err := b.read(ctx, "/v1/metrics", false)
		b.put("metrics/000.json", text, err)
	}
	for _, f := range clusterFiles {
		text, err := b.read(ctx, with(f.path, stale), false)
		b.put(f.file, text, err)
	}
	b.jobs(ctx, stale)
	for _, t := range targets {
		for _, f := range b.debug.agentFiles() {
			text, err := b.read(ctx, with(f.path, url.Values{t.param: {t.id}}), false)
			b.put(t.folder+"/"+f.file, text, err)
		}
		if *b.debug.export || *b.debug.lookback > 0 {
			b.logFile(ctx, t)
		}
	}
	running.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return b.redact(targets)
}

// jobs reads the definitions of the jobs.
func (b *bundle) jobs(ctx context.Context, stale url.Values) {
	text, err := b.read(ctx, with("/v1/jobs?namespace=*", stale), false)
	var list []struct{ ID, Namespace string }
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return // the list itself has been noted
	}
	const most = 500
	for i, j := range list {
		if i == most || ctx.Err() != nil {
			b.put("jobs/more", nil, berth.Errorf(berth.TooLarge, "%d jobs are left out", len(list)-i))
			return
		}
		text, err := b.read(ctx, with("/v1/job/"+url.PathEscape(j.ID), url.Values{"namespace": {j.Namespace}}), false)
		b.put(fmt.Sprintf("jobs/%s.json", url.PathEscape(j.Namespace+"."+j.ID)), text, err)
	}
}

// logs reads the log of an agent for as long as the bundle is collected.
func (b *bundle) logs(ctx context.Context, t target) {
	q := url.Values{t.param: {t.id}, "log_level": {strings.ToLower(*b.debug.level)}, "plain": {"true"}}
	if *b.debug.location {
		q.Set("log_include_location", "true")
	}
	text, err := b.read(ctx, with("/v1/agent/monitor", q), true)
	b.put(t.folder+"/monitor.log", text, err)
}

// logFile reads the log file of an agent, or its newest lines.
func (b *bundle) logFile(ctx context.Context, t target) {
	text, err := b.read(ctx, with("/v1/agent/monitor/export", url.Values{t.param: {t.id}, "on_disk": {"true"}, "plain": {"true"}}), false)
	if b.debug.lookback != nil && *b.debug.lookback > 0 {
		text = linesSince(text, b.began.Add(-*b.debug.lookback))
	}
	b.put(t.folder+"/monitor-export.log", text, err)
}

// linesSince returns the lines of a log from the first on that has a time which
// is not before another. Lines begin with time=… or are JSON objects with a time;
// what has none belongs to the line before it.
func linesSince(text []byte, since time.Time) []byte {
	at := 0
	for line := range bytes.Lines(text) {
		if when, ok := timeOf(line); ok && !when.Before(since) {
			return text[at:]
		}
		at += len(line)
	}
	return nil
}

// timeOf returns the time of a line of a log.
func timeOf(line []byte) (time.Time, bool) {
	_, rest, ok := bytes.Cut(line, []byte("time="))
	end := byte(' ')
	if !ok {
		if _, rest, ok = bytes.Cut(line, []byte(`"time":"`)); !ok {
			return time.Time{}, false
		}
		end = '"'
	}
	if n := bytes.IndexByte(rest, end); n >= 0 {
		rest = rest[:n]
	}
	when, err := time.Parse(time.RFC3339Nano, string(bytes.TrimSpace(rest)))
	return when, err == nil
}

// events reads the event stream.
func (b *bundle) events(ctx context.Context) {
	q := url.Values{"topic": *b.debug.topics, "namespace": {"*"}}
	if *b.debug.eventIndex > 0 {
		q.Set("index", fmt.Sprint(*b.debug.eventIndex))
	}
	text, err := b.read(ctx, with("/v1/event/stream", q), true)
	b.put("events.ndjson", text, err)
}

// metrics reads the metrics of the agent that is called, now and then.
func (b *bundle) metrics(ctx context.Context) {
	tick := time.NewTicker(*b.debug.interval)
	defer tick.Stop()
	for n := 0; ; n++ {
		text, err := b.read(ctx, "/v1/metrics", false)
		if ctx.Err() == nil || n == 0 {
			b.put(fmt.Sprintf("metrics/%03d.json", n), text, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// redact turns what was read into the files of the bundle, and adds an index.
func (b *bundle) redact(targets []target) error {
	own := []string{b.call.config.Token, b.call.config.BasicAuth}
	if _, password, ok := strings.Cut(b.call.config.BasicAuth, ":"); ok {
		own = append(own, password)
	}
	// What is removed from a job can stand in a message about it.
	var pairs []string
	seen := map[string]bool{}
	for _, f := range b.raw {
		if !strings.HasPrefix(f.name, "jobs/") {
			continue
		}
		for _, s := range redact.Removed(f.text) {
			if !seen[s] {
				seen[s] = true
				pairs = append(pairs, s, redact.Mark)
			}
		}
	}
	replacer := strings.NewReplacer(pairs...)
	for _, f := range b.raw {
		text := f.text
		switch {
		case strings.HasSuffix(f.name, ".prof"):
		case strings.HasSuffix(f.name, ".json"):
			text = redact.JSON(redact.Messages(text, replacer), own...)
		case strings.HasSuffix(f.name, ".ndjson"):
			var lines []string
			for line := range strings.Lines(string(text)) {
				if line = strings.TrimSpace(line); line != "" && line != "{}" {
					lines = append(lines, string(redact.JSON(redact.Messages([]byte(line), replacer), own...)))
				}
			}
			text = []byte(strings.Join(lines, "\n"))
		default:
			text = []byte(redact.Text(replacer.Replace(string(text)), own...))
		}
		b.files = append(b.files, bundleFile{f.name, text})
	}
	return b.index(targets, own)
}

// index adds the file that says what the bundle has, and what it lacks and why.
func (b *bundle) index(targets []target, own []string) error {
	var names, agents []string
	for _, f := range b.files {
		names = append(names, f.name)
	}
	for _, t := range targets {
		agents = append(agents, t.folder)
	}
	slices.Sort(names)
	text, err := json.Marshal(map[string]any{
		"Created": b.began.UTC().Format(time.RFC3339), "Version": Version, "Duration": b.debug.duration.String(), "Agents": agents, "Files": names, "Failed": b.failed,
	})
	if err != nil {
		return err
	}
	b.files = append(b.files, bundleFile{"index.json", redact.JSON(text, own...)})
	slices.SortFunc(b.files, func(x, y bundleFile) int { return strings.Compare(x.name, y.name) })
	return nil
}
