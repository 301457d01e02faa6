package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"
	"berth/op"
)

// Connectivity answers as servers do: when there is something else than what
// the agent has.
func (c *cluster) Connectivity(ctx context.Context, in *op.ConnectivityQuery) (*op.ConnectivityAnswer, error) {
	timeout := time.After(cmp.Or(in.MaxQueryTime, time.Minute))
	late := false
	for {
		c.mu.Lock()
		if err := c.enter("connectivity"); err != nil {
			c.mu.Unlock()
			return nil, err
		}
		f, changed := c.files[in.AllocID.String()], c.changed
		out := &op.ConnectivityAnswer{File: f, Meta: op.Meta{Index: c.index - c.lag}}
		c.mu.Unlock()
		if f != nil {
			b, err := json.Marshal(f)
			if err != nil {
				return nil, err
			}
			if out.Mark = string(b); out.Mark != in.Have || out.Index < in.MinQueryIndex || late {
				return out, nil
			}
		}
		select {
		case <-changed:
		case <-timeout:
			late = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ReportConnectivity refuses what is not of the present launch.
func (c *cluster) ReportConnectivity(_ context.Context, in *op.ReportConnectivity) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter("linked"); err != nil {
		return err
	}
	f := c.files[in.AllocID.String()]
	if f == nil || in.PE != f.PE.UID || in.Launch != f.PE.LaunchCount || in.SecretID == "" || in.NodeID.IsZero() {
		return berth.Refusef(berth.CodeStaleLaunch, "%s is not of the present launch", in.AllocID)
	}
	c.linked = append(c.linked, *in)
	return nil
}

func (c *cluster) reported() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var states []string
	for _, in := range c.linked {
		states = append(states, in.State)
	}
	return strings.Join(states, " ")
}

// link says what a processing element is connected with.
func (c *cluster) link(id string, f *op.ConnectivityFile) {
	c.step(func() {
		if c.files == nil {
			c.files = map[string]*op.ConnectivityFile{}
		}
		c.files[id] = f
	})
}

// transform is a processing element that feeds one at addr.
func transform(launch uint64, addr string) *op.ConnectivityFile {
	text := fmt.Sprintf(`{
		"Job": {"Name": "telemetry", "ID": 12, "UID": "j-0000000000000a31-00", "Generation": 3},
		"PE": {"ID": 2, "Name": "telemetry.transform[1]", "UID": "p-0000000000000a40-02", "LaunchCount": %d, "ContentID": "sha256:00ff",
			"Region": "score", "Channel": 1, "MaxChannels": 3},
		"Inputs": [{"Name": "in", "Bind": "0.0.0.0:23412", "From": [{"Job": "telemetry", "PE": "telemetry.source[0]", "Output": "raw", "Kind": "static"}]}],
		"Outputs": [{"Name": "scored", "Distribution": "broadcast",
			"To": [{"Kind": "static", "Job": "telemetry", "PE": "telemetry.sink[0]", "Input": "in", "Addr": %q, "LaunchCount": 1}]}]}`, launch, addr)
	f := new(op.ConnectivityFile)
	if err := json.Unmarshal([]byte(text), f); err != nil {
		panic(err)
	}
	return f
}

// witness notes its environment, and what it sees at the start and at each
// SIGHUP.
const witness = `trap 'grep "\"Version\"\|Addr" "$STREAM_CONNECTIVITY_FILE" | tr -d " \n" >> "$NOMAD_TASK_DIR/seen"; echo >> "$NOMAD_TASK_DIR/seen"' HUP
env | grep ^STREAM_ | sort > "$NOMAD_TASK_DIR/env"
kill -HUP $$
echo $$ >> "$NOMAD_TASK_DIR/pids"
while true; do sleep 0.05; done`

const onHangup = `,"Connectivity":{"ChangeMode":"signal","ChangeSignal":"SIGHUP"}`

func (m *machine) local(id, task, file string) string {
	b, _ := os.ReadFile(filepath.Join(m.dir, "alloc", id, task, "local", file))
	return string(b)
}

func (m *machine) connectivity(id string) (f op.ConnectivityFile) {
	b, err := os.ReadFile(filepath.Join(m.dir, "alloc", id, "alloc", "connectivity.json"))
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil && !os.IsNotExist(err) {
		m.t.Errorf("the file is not whole: %v: %q", err, b)
	}
	return f
}

// put reports as a task does, at STREAM_API.
func put(t *testing.T, api, body string) (int, string) {
	t.Helper()
	code, _, text := putAt(t, api, "/v1/stream/pe/self/connectivity", body)
	return code, text
}

// putAt puts something at a path below STREAM_API.
func putAt(t *testing.T, api, path, body string) (code int, refusal, text string) {
	t.Helper()
	u, err := url.Parse(api)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: eventually.Limit}
	base := api
	if u.Scheme == "unix" {
		base = "http://agent"
		client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", u.Path)
		}}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get(op.HeaderCode), string(b)
}

func streamAPI(m *machine, id, task string) string {
	for line := range strings.Lines(m.local(id, task, "env")) {
		if v, ok := strings.CutPrefix(line, "STREAM_API="); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// Nothing of a processing element starts before it is known what it is
// connected with; it finds that by its environment; and what changes is told as
// each task wants it.
func TestConnectionsAreTold(t *testing.T) {
	m := newMachine(t)
	m.agent()
	until(t, "the node is ready", m.isReady)
	id := m.place(newAlloc(t, "stream", shTask("main", witness, onHangup)+","+
		shTask("again", sleeper, `,"Connectivity":{"ChangeMode":"restart"}`)+","+shTask("deaf", sleeper), `,"EphemeralDisk":{"SizeMB":600}`))
	until(t, "the allocation says what it waits for", func() bool {
		return strings.Contains(m.alloc(id).ClientDescription, "what it is connected with")
	})
	if got := m.processes(); len(m.pids(id, "deaf")) > 0 || m.status(id) != "pending" {
		t.Errorf("%s, %v run already", m.status(id), got)
	}
	m.link(id, transform(1, ""))
	m.untilStatus(id, "running")
	until(t, "all tasks have started", func() bool {
		return len(m.pids(id, "main")) == 1 && len(m.pids(id, "again")) == 1 && len(m.pids(id, "deaf")) == 1
	})
	dir := filepath.Join(m.dir, "alloc", id)
	want := []string{
		"STREAM_API=unix://" + dir + "/alloc/stream.sock", "STREAM_CHANNEL=1", "STREAM_CONNECTIVITY_FILE=" + dir + "/alloc/connectivity.json",
		"STREAM_CONTENT_ID=sha256:00ff", "STREAM_GENERATION=3", "STREAM_JOB=telemetry", "STREAM_JOB_ID=12", "STREAM_JOB_UID=j-0000000000000a31-00",
		"STREAM_LAUNCH_COUNT=1", "STREAM_MAX_CHANNELS=3", "STREAM_PE=telemetry.transform[1]", "STREAM_PE_ID=2", "STREAM_PE_UID=p-0000000000000a40-02", "STREAM_REGION=score",
	}
	if got := strings.Split(strings.TrimSpace(m.local(id, "main", "env")), "\n"); !slices.Equal(got, want) {
		t.Errorf("the environment is\n%s", strings.Join(got, "\n"))
	}
	until(t, "the first version is read", func() bool { return m.local(id, "main", "seen") == `"Version":1,"Addr":"",`+"\n" })
	if st, err := os.Stat(dir + "/alloc/connectivity.json"); err != nil || st.Mode() != 0o644 {
		t.Errorf("%v, %v", st.Mode(), err)
	}

	m.link(id, transform(1, "10.0.0.7:21833"))
	until(t, "the second version is told", func() bool {
		return strings.HasSuffix(m.local(id, "main", "seen"), `"Version":2,"Addr":"10.0.0.7:21833",`+"\n") && len(m.pids(id, "again")) == 2
	})
	m.step(func() {}) // something that does not concern it
	until(t, "the restart is reported", func() bool { return m.restarts(id, "again") == 1 && m.status(id) == "running" })
	if e := m.events(id, "again"); !strings.Contains(e, "Restart Signaled") || len(m.pids(id, "deaf")) != 1 || len(m.pids(id, "main")) != 1 {
		t.Errorf("%s; %v, %v", e, m.pids(id, "deaf"), m.pids(id, "main"))
	}
	if f := m.connectivity(id); f.Version != 2 || f.PE.LaunchCount != 1 {
		t.Errorf("%+v", f)
	}
	m.stop(id)
	m.untilStatus(id, "complete")
	until(t, "nobody listens any more", func() bool { _, err := os.Stat(dir + "/alloc/stream.sock"); return os.IsNotExist(err) })
}

// What a processing element says of its connections is passed on; what is wrong
// or old is refused.
func TestAProcessingElementReportsItsConnections(t *testing.T) {
	m := newMachine(t)
	m.agent()
	until(t, "the node is ready", m.isReady)
	id := m.place(newAlloc(t, "stream", shTask("main", witness, onHangup)))
	m.link(id, transform(4, "10.0.0.7:21833"))
	until(t, "the task has started", func() bool { return len(m.pids(id, "main")) == 1 })
	api := streamAPI(m, id, "main")
	for _, c := range []struct {
		body string
		code int
		text string
	}{
		{`{"State":"partial","Version":1}`, 204, ""},
		{`{"State":"full"}`, 204, ""},
		{`{"State":"full","Version":2}`, 400, "Version: 2 does not exist yet; the file has version 1"},
		{`{"State":"Full","Version":1}`, 400, `unknown State "Full": want none, partial or full`},
		{`{"State":"full","Versions":1}`, 400, `unknown field "Versions"; want {"State": …, "Version": …}`},
		{`nonsense`, 400, "body: "},
		{`{"State":"` + strings.Repeat("x", 5000) + `"}`, 413, "must be at most 4096 bytes"},
	} {
		if code, text := put(t, api, c.body); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%.60s: %d %s; wanted %d %q", c.body, code, text, c.code, c.text)
		}
	}
	m.link(id, transform(4, ""))
	until(t, "there is a second version", func() bool { return m.connectivity(id).Version == 2 })
	refused := func(body string, refusal berth.Code) {
		t.Helper()
		code, got, text := putAt(t, api, "/v1/stream/pe/self/connectivity", body)
		if code != 409 || got != string(refusal) || !strings.HasPrefix(text, string(refusal)+": ") {
			t.Errorf("%d %q %s; wanted is %q", code, got, text, refusal)
		}
	}
	refused(`{"State":"full","Version":1}`, berth.CodeStaleVersion)
	if got := m.reported(); got != "partial full" {
		t.Errorf("servers were told %q", got)
	}
	m.cluster.mu.Lock()
	m.fail = func(call string) error {
		if call == "linked" {
			return berth.Refusef(berth.CodeStaleLaunch, "it was launched again")
		}
		return nil
	}
	m.cluster.mu.Unlock()
	refused(`{"State":"full"}`, berth.CodeStaleLaunch)
	for _, err := range []error{berth.Errorf(berth.Unavailable, "no server answers"), berth.Errorf(berth.NoLeader, "No cluster leader"), errors.New("the wire is cut")} {
		m.cluster.mu.Lock()
		m.fail = func(call string) error {
			if call == "linked" {
				return err
			}
			return nil
		}
		m.cluster.mu.Unlock()
		if code, refusal, text := putAt(t, api, "/v1/stream/pe/self/connectivity", `{"State":"full"}`); code != 503 || refusal != "" {
			t.Errorf("%d %q %s", code, refusal, text)
		}
	}
	m.stop(id)
	m.untilStatus(id, "complete")
}

// However the agent ends: versions go on growing, what changed meanwhile is
// told, what did not is not, and where tasks report stays.
func TestConnectionsOutliveTheAgent(t *testing.T) {
	m := newMachine(t)
	a := m.agent()
	until(t, "the node is ready", m.isReady)
	id := m.place(newAlloc(t, "stream", shTask("main", witness, onHangup)))
	m.link(id, transform(1, "10.0.0.1:1"))
	until(t, "the first version is read", func() bool {
		return strings.Contains(m.local(id, "main", "seen"), `"Version":1`) && len(m.pids(id, "main")) == 1
	})
	pids := m.pids(id, "main")
	api := streamAPI(m, id, "main")
	a.kill()
	a = m.agent()
	until(t, "the new agent listens", func() bool { code, _ := put(t, api, `{"State":"full","Version":1}`); return code == 204 })
	a.term()
	m.link(id, transform(1, "10.0.0.2:2"))
	a = m.agent()
	until(t, "the second version is told", func() bool { return strings.Contains(m.local(id, "main", "seen"), `"Version":2,"Addr":"10.0.0.2:2"`) })
	if got := m.local(id, "main", "seen"); strings.Count(got, `"Version":1`) != 1 {
		t.Errorf("it was told of what had not changed: %s", got)
	}
	a.kill()
	// A task that spoils its own file harms nobody but itself.
	if err := os.WriteFile(filepath.Join(m.dir, "alloc", id, "alloc", "connectivity.json"), []byte(`{"Version":1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	m.agent()
	until(t, "the file is there again", func() bool { return m.connectivity(id).Version == 3 && m.connectivity(id).PE.ID == 2 })
	if now := m.pids(id, "main"); !slices.Equal(now, pids) || !alive(now[0]) {
		t.Errorf("processes %v became %v", pids, now)
	}
	m.stop(id)
	m.untilStatus(id, "complete")
}

// Where the path of a socket would be too long, tasks report to an address, and
// nobody else can.
func TestALongPathHasNoSocket(t *testing.T) {
	m := newMachine(t)
	m.dir = filepath.Join(m.dir, strings.Repeat("d", 60))
	a := m.agent()
	until(t, "the node is ready", m.isReady)
	id := m.place(newAlloc(t, "stream", shTask("main", witness, onHangup)))
	m.link(id, transform(1, "10.0.0.1:1"))
	until(t, "the task has started", func() bool { return len(m.pids(id, "main")) == 1 })
	api := streamAPI(m, id, "main")
	u, err := url.Parse(api)
	if err != nil || u.Scheme != "http" || !strings.HasPrefix(u.Host, "127.0.0.1:") {
		t.Fatalf("%s, %v", api, err)
	}
	if code, text := put(t, api, `{"State":"full","Version":1}`); code != 204 {
		t.Errorf("%d %s", code, text)
	}
	if code, text := put(t, fmt.Sprintf("http://%s/%032d", u.Host, 7), `{"State":"none"}`); code != 404 || strings.Contains(text, u.Path) {
		t.Errorf("%d %s", code, text)
	}
	a.kill()
	m.agent()
	until(t, "the new agent listens there", func() bool { code, _ := put(t, api, `{"State":"none"}`); return code == 204 })
	if got := m.reported(); got != "full none" {
		t.Errorf("servers were told %q", got)
	}
	m.stop(id)
	m.untilStatus(id, "complete")
}

// A task is known by where it reports: what comes in there counts for the
// processing element of its own allocation, and it can name no other.
func TestATaskReportsForItselfAlone(t *testing.T) {
	m := newMachine(t)
	m.agent()
	until(t, "the node is ready", m.isReady)
	other := transform(7, "")
	other.PE.UID, other.PE.Name = "p-0000000000000a40-03", "telemetry.transform[2]"
	var apis, ids []string
	for _, f := range []*op.ConnectivityFile{transform(4, ""), other} {
		id := m.place(newAlloc(t, "stream", shTask("main", witness, onHangup)))
		m.link(id, f)
		until(t, "the task has started", func() bool { return len(m.pids(id, "main")) == 1 })
		ids, apis = append(ids, id), append(apis, streamAPI(m, id, "main"))
	}
	if apis[0] == apis[1] {
		t.Fatalf("both report at %s", apis[0])
	}
	const self = "/v1/stream/pe/self/connectivity"
	for _, c := range []struct{ path, body string }{
		{self, `{"State":"full","PE":"p-0000000000000a40-03"}`}, {self, `{"State":"full","AllocID":"` + ids[1] + `"}`},
		{self, `{"State":"full","Launch":7}`}, {"/v1/stream/pe/p-0000000000000a40-03/connectivity", `{"State":"full"}`},
		{"/v1/stream/pe/telemetry.transform[2]/connectivity", `{"State":"full"}`}, {self + "/../../telemetry.transform[2]/connectivity", `{"State":"full"}`},
	} {
		if code, _, text := putAt(t, apis[0], c.path, c.body); code/100 != 4 {
			t.Errorf("%s %s: %d %s", c.path, c.body, code, text)
		}
	}
	if got := m.reported(); got != "" {
		t.Errorf("servers were told %q", got)
	}
	for i, state := range []string{"partial", "full"} {
		if code, text := put(t, apis[i], `{"State":"`+state+`"}`); code != 204 {
			t.Errorf("%d %s", code, text)
		}
	}
	m.cluster.mu.Lock()
	for i, in := range m.linked {
		if in.AllocID.String() != ids[i] || in.PE != []string{"p-0000000000000a40-02", "p-0000000000000a40-03"}[i] || in.Launch != []uint64{4, 7}[i] {
			t.Errorf("report %d is of %s, launch %d of %s", i, in.AllocID, in.Launch, in.PE)
		}
	}
	m.cluster.mu.Unlock()
	if got := m.reported(); got != "partial full" {
		t.Errorf("servers were told %q", got)
	}
	for _, id := range ids {
		m.stop(id)
		m.untilStatus(id, "complete")
	}
}
