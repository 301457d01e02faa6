// Package connect tells the tasks of one allocation of a stream job what their
// processing element is connected with: in a file that they find by their
// environment and that is replaced, whole, whenever servers say something
// else. In return it passes on which of these connections they have.
//
// Versions of the file grow as long as there is the allocation, whatever
// becomes of the agent in between. What is in the file follows from what
// servers say; when it is there for the first time, tasks may start. Who is
// signalled or started anew because of another version is package alloc's
// business.
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

// The files below the allocation's directory.
const (
	shared = "alloc" // what all tasks of the allocation see
	name   = "connectivity.json"
	socket = "stream.sock"
)

// maxFile bounds what is read of a file that tasks may have written over.
const maxFile = 64 << 20

const (
	batchWindow = 200 * time.Millisecond // changes that come together make one version
	firstRetry  = 250 * time.Millisecond
	lastRetry   = 15 * time.Second
	// staleGrace is for how long answers that are older than one acted on are taken
	// for those of a server that lags; afterwards an older state was restored.
	staleGrace = 10 * time.Second
)

// Servers are the servers as a processing element sees them.
type Servers interface {
	// Connectivity returns when there is something else than what have marks,
	// or after a while; index is that of the state which have is from. With
	// leader the leader is asked.
	Connectivity(ctx context.Context, have string, index uint64, leader bool) (*op.ConnectivityAnswer, error)
	// ReportConnectivity tells which connections a launch has.
	ReportConnectivity(ctx context.Context, pe string, launch uint64, state string) error
}

// Config is what a Keeper needs.
type Config struct {
	Servers  Servers
	Dir      *saferoot.Root            // the allocation's directory, in which there is alloc
	Restored []byte                    // what Save was last given; nil for a new allocation
	Save     func(record []byte) error // returns when it is safe
	Changed  func()                    // called when there is another version; must not block
	Log      *slog.Logger
}

// record is what must be known after a restart of the agent.
type record struct {
	Version uint64 // of the newest file, which may not have come to be
	Told    uint64 // up to which tasks were told
	Sum     string // of what the file says beside its version
	Index   uint64 // of the state that it is from
	// Launched is what the first file said of the job and the processing element;
	// nil before, or if an earlier release did not note it.
	Launched *op.ConnectivityFile `json:",omitempty"`
	Port     int                  `json:",omitempty"` // of the address on which tasks report, if there can be no socket
	Token    string               `json:",omitempty"` // and what they prove by that they are the allocation's
}

// Keeper keeps the file of one allocation. Its Run owns it; the other methods
// may be called from anywhere.
type Keeper struct {
	c Config

	mu     sync.Mutex
	record record
	file   *op.ConnectivityFile // that is there; nil: none yet
	env    map[string]string    // of it
	api    string               // where tasks report

	// Run's own.
	listener   net.Listener // since the address was chosen, until it is served; nil: to be opened
	mark       string       // of the newest answer
	index      uint64       // of that
	staleSince time.Time    // since when answers are too old; zero if they are not
}

// Open takes up an allocation, also one that an earlier agent had. The shared
// directory must be there.
func Open(c Config) (*Keeper, error) {
	k := &Keeper{c: c}
	if c.Restored != nil {
		if err := json.Unmarshal(c.Restored, &k.record); err != nil {
			// Its checksum was right, so another release wrote it.
			c.Log.Warn("what is recorded of connections cannot be read", "error", err)
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

// load reads the file that is there. One that is not what we wrote last is
// as good as none: tasks may have written over it.
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

// sum marks what a file says beside its version.
func sum(f *op.ConnectivityFile) string {
	g := *f
	g.Version = 0
	b, err := json.Marshal(&g)
	if err != nil {
		return "" // no record has it
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Version returns which version the file has, 0 before there is one.
func (k *Keeper) Version() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return 0
	}
	return k.file.Version
}

// Notified returns up to which version tasks were told that there is one.
func (k *Keeper) Notified() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.record.Told
}

// MarkNotified notes that tasks were told. What cannot be recorded is told again by the
// next agent.
func (k *Keeper) MarkNotified(version uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if version <= k.record.Told {
		return
	}
	k.record.Told = version
	if err := k.save(); err != nil {
		k.c.Log.Debug("that tasks know their connections cannot be recorded", "error", err)
	}
}

// save is called with mu held.
func (k *Keeper) save() error {
	b, err := json.Marshal(&k.record)
	if err != nil {
		return err
	}
	return k.c.Save(b)
}

// Env returns the variables that tasks find it all by, nil before there is a
// file. It must not be changed.
func (k *Keeper) Env() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.env
}

// environment is called when the file is another. It is that of the launch,
// whatever the job came to since.
func (k *Keeper) environment(f *op.ConnectivityFile) map[string]string {
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

// Run keeps the file and listens to the tasks until ctx ends.
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
			case berth.NotFound, berth.Conflict: // it is about to be stopped, or the server lags
				level = slog.LevelDebug
			}
			k.c.Log.Log(ctx, level, "what an allocation is connected with is not known; trying again", "error", err)
			again = retry(failures)
			failures++
		}
		if rest.For(ctx, again) != nil {
			return
		}
	}
}

// retry is how long to wait before the nth try in a row.
func retry(n int) time.Duration {
	d := lastRetry
	if n < 10 {
		d = min(lastRetry, firstRetry<<n)
	}
	return d/2 + mathrand.N(d/2+1)
}

// poll asks servers once and acts on what they say. It returns how long to
// wait before they are asked again.
func (k *Keeper) poll(ctx context.Context) (time.Duration, error) {
	have := k.mark
	answer, err := k.c.Servers.Connectivity(ctx, have, k.index, !k.staleSince.IsZero() || have == "" && k.Version() == 0)
	if err != nil {
		return 0, err
	}
	if answer.File == nil {
		return 0, errors.New("servers answered without a file")
	}
	if answer.Index < k.index {
		now := time.Now()
		if k.staleSince.IsZero() {
			k.staleSince = now
		}
		if now.Sub(k.staleSince) < staleGrace {
			return time.Second, nil
		}
		k.c.Log.Warn("the servers' state is older than what was acted on: it was restored or begun anew; going by it", "index", answer.Index, "acted", k.index)
	}
	if err := k.write(answer); err != nil {
		return 0, err
	}
	k.staleSince, k.mark, k.index = time.Time{}, answer.Mark, answer.Index
	return batchWindow, nil
}

// write writes the file, unless it is there.
func (k *Keeper) write(answer *op.ConnectivityAnswer) error {
	f := *answer.File
	of := sum(&f)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file != nil && of == k.record.Sum {
		return nil
	}
	// Recorded first: a version that a task has seen is not given again.
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
		k.file = nil
		return err
	}
	k.file, k.env = &f, k.environment(&f)
	k.c.Changed()
	return nil
}
