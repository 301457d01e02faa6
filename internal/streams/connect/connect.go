// Package connect tells the tasks of one allocation of a stream job what their
// processing element is connected with. It writes a file, named by an
// environment variable and replaced atomically whenever the servers' answer
// changes. In return it forwards the tasks' reports on the connections they
// have.
//
// Versions of the file increase for the life of the allocation, even across
// agent restarts. The content depends only on the servers' answers; tasks may
// start once the file exists. Package alloc decides which tasks to signal or
// restart because of a new version.
package connect

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"berth"
	"berth/internal/rest"
	"berth/internal/saferoot"
	"berth/op"
)

// The files in the allocation's directory.
const (
	shared = "alloc" // what all tasks of the allocation see
	name   = "connectivity.json"
	socket = "stream.sock"
)

// maxFile is the limit of what is read of an existing file, because tasks may
// have overwritten it.
const maxFile = 64 << 20

const (
	batchWindow = 200 * time.Millisecond // changes within this time make one version
	firstRetry  = 250 * time.Millisecond
	lastRetry   = 15 * time.Second
	// staleGrace is how long answers with an older index are ignored, because
	// the server may lag. Afterwards an older state was restored.
	staleGrace = 10 * time.Second
)

// Servers are the servers as a processing element sees them.
type Servers interface {
	// Connectivity returns when the answer differs from the one marked by have,
	// or after a while. index is the state index of the answer marked by have.
	// leader asks the leader.
	Connectivity(ctx context.Context, have string, index uint64, leader bool) (*op.ConnectivityAnswer, error)
	// ReportConnectivity reports which connections a launch has.
	ReportConnectivity(ctx context.Context, pe string, launch uint64, state string) error
}

// Config is what a Keeper needs.
type Config struct {
	Servers  Servers
	Dir      *saferoot.Root            // the allocation's directory; contains the shared directory
	Restored []byte                    // the last record given to Save; nil for a new allocation
	Save     func(record []byte) error // returns when the record is durable
	Changed  func()                    // called after a new version was written; must not block
	Log      *slog.Logger
}

// record is what must survive a restart of the agent.
type record struct {
	Version uint64 // of the newest file, which may not have been written
	Told    uint64 // the newest version that tasks were notified of
	Sum     string // hash of the file without its version
	Index   uint64 // of the state that the file is from
	// Launched is the job and the processing element in the first file; nil
	// before that, or if an earlier release did not record it.
	Launched *op.ConnectivityFile `json:",omitempty"`
	Port     int                  `json:",omitempty"` // of the loopback address for reports, if there is no socket
	Token    string               `json:",omitempty"` // proves that a report comes from the allocation
}

// Keeper maintains the file of one allocation. Run owns it; the other methods
// may be called from any goroutine.
type Keeper struct {
	c Config

	mu     sync.Mutex
	record record
	file   *op.ConnectivityFile // as written; nil if not written yet
	env    map[string]string    // of it
	api    string               // where tasks report

	// Run's own.
	listener   net.Listener // open since the address was chosen; nil if it must be opened
	mark       string       // of the newest answer
	index      uint64       // of that
	staleSince time.Time    // since when answers are stale; zero if they are not
}

// Open returns the keeper of an allocation, new or restored. The shared
// directory must exist.
func Open(c Config) (*Keeper, error) {
	k := &Keeper{c: c}
	if c.Restored != nil {
		if err := json.Unmarshal(c.Restored, &k.record); err != nil {
			// Its checksum is right, so another release wrote it.
			c.Log.Warn("cannot read the connectivity record; starting over", "error", err)
			k.record = record{}
		}
	}
	if k.record.Token == "" {
		var b [16]byte
		rand.Read(b[:])
		k.record.Token = hex.EncodeToString(b[:])
	}
	k.index = k.record.Index
	if err := k.load(); err != nil {
		return nil, err
	}
	if err := k.chooseAddress(); err != nil {
		return nil, err
	}
	if k.file != nil {
		k.env = k.environment(k.file)
	}
	return k, nil
}

// load reads the existing file. If it is not what was written last, it is
// ignored: tasks may have overwritten it.
func (k *Keeper) load() error {
	b, err := k.c.Dir.ReadFile(shared+"/"+name, maxFile)
	if errors.Is(err, fs.ErrNotExist) || berth.KindOf(err) != "" {
		return nil
	}
	if err != nil {
		return err
	}
	f := new(op.ConnectivityFile)
	if json.Unmarshal(b, f) != nil || f.Version > k.record.Version || sum(f) != k.record.Sum {
		if f.Version > k.record.Version && f.Version < 1<<53 { // the record was lost, and the file was not
			k.record.Version = f.Version
		}
		return nil
	}
	k.file = f
	return nil
}

// sum returns the hash of a file without its version.
func sum(f *op.ConnectivityFile) string {
	g := *f
	g.Version = 0
	b, err := json.Marshal(&g)
	if err != nil {
		return "" // equals no record
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Version returns the version of the file, 0 if not written yet.
func (k *Keeper) Version() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return 0
	}
	return k.file.Version
}

// Notified returns the newest version that tasks were notified of.
func (k *Keeper) Notified() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.record.Told
}

// MarkNotified records that tasks were notified. If that fails, the next agent
// notifies them again.
func (k *Keeper) MarkNotified(version uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if version <= k.record.Told {
		return
	}
	k.record.Told = version
	if err := k.save(); err != nil {
		k.c.Log.Debug("cannot record that tasks were notified of their connections", "error", err)
	}
}

// save must be called with mu held.
func (k *Keeper) save() error {
	b, err := json.Marshal(&k.record)
	if err != nil {
		return err
	}
	return k.c.Save(b)
}

// Env returns the environment variables for tasks, nil before the file exists.
// The map must not be modified.
func (k *Keeper) Env() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.env
}

// environment returns the variables for a file. They describe the launch and do
// not change with the job.
func (k *Keeper) environment(f *op.ConnectivityFile) map[string]string {
	// Variables are those of the launch: a program that runs cannot see others.
	if k.record.Launched != nil {
		f = k.record.Launched
	}
	return map[string]string{
		"STREAM_JOB":               f.Job.Name,
		"STREAM_JOB_ID":            strconv.FormatUint(f.Job.ID, 10),
		"STREAM_JOB_UID":           f.Job.UID,
		"STREAM_GENERATION":        strconv.FormatUint(f.Job.Generation, 10),
		"STREAM_PE":                f.PE.Name,
		"STREAM_PE_ID":             strconv.Itoa(f.PE.ID),
		"STREAM_PE_UID":            f.PE.UID,
		"STREAM_LAUNCH_COUNT":      strconv.FormatUint(f.PE.LaunchCount, 10),
		"STREAM_REGION":            f.PE.Region,
		"STREAM_CHANNEL":           strconv.Itoa(f.PE.Channel),
		"STREAM_MAX_CHANNELS":      strconv.Itoa(f.PE.MaxChannels),
		"STREAM_CONTENT_ID":        f.PE.ContentID,
		"STREAM_CONNECTIVITY_FILE": filepath.Join(k.c.Dir.Path(), shared, name),
		"STREAM_API":               k.api,
	}
}

// Run maintains the file and accepts reports until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { k.serve(ctx) })
	for failures := 0; ctx.Err() == nil; {
		again, err := k.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		default:
			level := slog.LevelWarn
			switch berth.KindOf(err) {
			case berth.NotFound, berth.Conflict: // the allocation is about to be stopped, or the server lags
				level = slog.LevelDebug
			}
			k.c.Log.Log(ctx, level, "cannot get the connections of an allocation; retrying", "error", err)
			again = retry(failures)
			failures++
		}
		if rest.For(ctx, again) != nil {
			return
		}
	}
}

// retry returns how long to wait before the nth retry in a row.
func retry(n int) time.Duration {
	d := lastRetry
	if n < 10 {
		d = min(lastRetry, firstRetry<<n)
	}
	return d/2 + mathrand.N(d/2+1)
}

// poll asks the servers once and acts on the answer. It returns how long to
// wait before the next poll.
func (k *Keeper) poll(ctx context.Context) (time.Duration, error) {
	have := k.mark
	answer, err := k.c.Servers.Connectivity(ctx, have, k.index, !k.staleSince.IsZero() || have == "" && k.Version() == 0)
	if err != nil {
		return 0, err
	}
	if answer.File == nil {
		return 0, errors.New("servers answered without a file")
	}
	// A server that lags is waited for. One that stays behind was restored.
	if answer.Index < k.index {
		now := time.Now()
		if k.staleSince.IsZero() {
			k.staleSince = now
		}
		if now.Sub(k.staleSince) < staleGrace {
			return time.Second, nil
		}
		k.c.Log.Warn("the servers' state is older than the one last used: it was restored or recreated; using it", "index", answer.Index, "acted", k.index)
	}
	if err := k.write(answer); err != nil {
		return 0, err
	}
	k.staleSince, k.mark, k.index = time.Time{}, answer.Mark, answer.Index
	return batchWindow, nil
}

// write writes the file unless it is unchanged.
func (k *Keeper) write(answer *op.ConnectivityAnswer) error {
	f := *answer.File
	of := sum(&f)
	k.mu.Lock()
	defer k.mu.Unlock()
	// The version tells tasks to read again, so it grows only with the content.
	if k.file != nil && of == k.record.Sum {
		return nil
	}
	// Record first: a version that a task may have seen is never reused.
	before := k.record
	k.record.Version++
	k.record.Sum, k.record.Index = of, answer.Index
	if k.record.Launched == nil {
		k.record.Launched = &op.ConnectivityFile{Job: f.Job, PE: f.PE}
	}
	if err := k.save(); err != nil {
		k.record = before
		return fmt.Errorf("record connections: %w", err)
	}
	f.Version = k.record.Version
	b, err := json.MarshalIndent(&f, "", "  ")
	if err != nil {
		return err
	}
	if err := k.c.Dir.Replace(shared+"/"+name, append(b, '\n'), 0o644); err != nil {
		// Whether the file was replaced is not known; the next answer writes it
		// again.
		k.file = nil
		return err
	}
	k.file, k.env = &f, k.environment(&f)
	k.c.Changed()
	return nil
}
