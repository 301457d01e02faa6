package ui

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/internal/login/logintest"
)

// One agent and one browser play the stories; each has tabs of its own. The last
// one kills the agent.
func TestUI(t *testing.T) {
	c := full(t, "")
	b := newBrowser(t)
	for _, s := range []struct {
		name string
		play func(*testing.T, *cluster, *browser)
	}{
		{"Pages", testPages}, {"WhyAndRepair", testWhyAndRepair}, {"TwoChanges", testTwoChanges}, {"ProblemsInAJobFile", testProblems}, {"Keys", testKeys}, {"PressedAtOnce", testPressedAtOnce},
		{"Terminal", testTerminal}, {"Volumes", testVolumes}, {"LogsTogether", testLogsTogether}, {"Canary", testCanary}, {"Stream", testStream}, {"WhatIf", testWhatIf}, {"Audit", testAudit}, {"Drain", testDrain}, {"LostConnection", testLost},
	} {
		t.Run(s.name, func(t *testing.T) {
			own := *c
			own.t = t // what fails there fails this story
			s.play(t, &own, b)
		})
	}
}

// A new user finds out from the overview why a job does not run, makes the
// smallest change that helps, sees what it would do, and runs it.
func testWhyAndRepair(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopLight)
	p.open("/")
	p.sees("things need attention", "9000000 MiB of memory asked")
	p.press("report-builder")
	p.sees("What would help")
	p.picture("story-why")
	p.press("Make this change")
	p.sees("This change was made")
	p.press("See what would happen")
	p.sees("all of it can be placed", "build: 1 created")
	p.picture("story-plan")
	p.press("Run it")
	p.sees("1 of 1 placed")
	p.gone("waiting for capacity")
	p.sees("running")
	p.picture("story-runs")
	c.shows("/v1/job/report-builder/summary", `"Running":1`)
	// It took all memory that was free, and other stories need some.
	p.confirm("Stop…", "Stop report-builder", "Stop 1 allocation")
	p.sees("stopped")
	c.shows("/v1/job/report-builder/allocations", `"ClientStatus":"complete"`)
}

// Where one change is not enough, the button makes both, and an attribute that no
// node has is named.
func testTwoChanges(t *testing.T, c *cluster, b *browser) {
	c.run("hungry", twiceTooLargeJob)
	defer c.berth("job", "stop", "-purge", "hungry")
	p := b.tab(t, c.addr, desktopDark)
	p.open("/job/hungry/why")
	p.sees("No node has ${meta.rack}")
	c.run("hungry", strings.Replace(twiceTooLargeJob, `constraint {
    attribute = "${meta.rack}"
    value     = "r1"
  }`, "", 1))
	p.sees("MHz less cpu", ", and ", "MiB less memory")
	p.gone("No node has")
	p.check()
	p.press("Make this change")
	p.sees("This change was made")
	p.becomes("both numbers are smaller", `(t => t && !t.includes('9000000') && !t.includes('8000000'))(document.querySelector('textarea[aria-label="Job file"]')?.value)`)
	p.press("See what would happen")
	p.sees("all of it can be placed")
}

// The topology page tries the failure of a datacenter: nothing finds another place
// when there is one node, and nothing is changed.
func testWhatIf(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, phoneDark)
	p.open("/topology")
	p.sees("What if these nodes fail?")
	p.press("Try it")
	p.sees("would find no other place", "front", "2 of 2")
	p.picture("story-what-if")
	p.check()
	c.shows("/v1/job/web/summary", `"Running":2`)
	if out := c.berth("node", "status"); !strings.Contains(out, "ready") {
		t.Errorf("the node is touched: %s", out)
	}
}

// The audit page finds who did what, and shows no value of a variable.
func testAudit(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopDark)
	p.open("/audit?operation=variable.*")
	p.sees("variable.write", "app/db")
	p.gone("job.register")
	p.picture("story-audit")
	p.check()
	var found bool
	p.eval(`document.body.textContent.includes('<b>secret</b>')`, &found)
	if found {
		t.Error("the page shows the value of a variable")
	}
}

// A problem in a job file is shown at its line, and nothing runs.
func testProblems(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopDark)
	p.open("/run")
	p.sees("Nothing runs before")
	p.fill(`textarea[aria-label="Job file"]`, "job \"broken\" {\n  grp \"g\" {}\n}\n")
	p.press("See what would happen")
	p.sees("line 2:", "grp")
	p.has(".squiggle")
	p.picture("story-problem")
	if got := c.get("/v1/job/broken"); strings.Contains(got, "grp") {
		t.Errorf("a job was registered: %s", got)
	}
}

// Keys and the palette lead anywhere; a link that is copied restores the view.
func testKeys(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopLight)
	p.open("/")
	p.sees("Needs attention")
	p.keysUntil("the page of the jobs is there", `location.pathname === '/ui/jobs'`, "g", "j")
	p.sees("Run a job", "web", "nightly")
	p.keysUntil("a row is selected", `!!document.querySelector('tr[aria-selected="true"]')`, "j")
	p.keys("Enter")
	p.sees("Definition")
	p.keys("Ctrl+k")
	p.fill("dialog.palette input", "topol")
	p.sees("Topology")
	p.keys("Enter")
	p.sees("By node pool")
	p.keys("?")
	p.sees("Keyboard shortcuts")
	p.keys("Escape")
	p.gone("next row")
	p.open("/jobs?q=we&type=service")
	p.sees("1 job")
	var at string
	p.eval(`location.href`, &at)
	if !strings.HasSuffix(at, "/ui/jobs?q=we&type=service") {
		t.Errorf("the address is %s", at)
	}
}

// A command runs in a terminal beside a task.
func testTerminal(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopDark)
	p.open("/alloc/" + c.first("/v1/job/web/allocations", "ID") + "/exec")
	p.press("Open the terminal")
	p.sees("Connected")
	p.becomes("the terminal has the keys", `!!document.activeElement?.closest('.xterm')`)
	p.becomes("the shell asks", `[...document.querySelectorAll('.xterm [role=listitem]')].some((e) => e.textContent.includes('#'))`)
	p.typed("echo 6x$((6*7))x")
	p.keys("Enter")
	p.sees("6x42x")
	p.picture("story-terminal")
	p.check()
	p.typed("exit 3")
	p.keys("Enter")
	p.sees("exit code 3")
}

// A link that is pressed as soon as it is there, before the page is painted,
// leads on.
func testPressedAtOnce(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopLight)
	p.before(`new MutationObserver((_, o) => {
		const a = document.querySelector('nav a[href="/ui/jobs"]')
		if (a) { o.disconnect(); a.click() }
	}).observe(document, {childList: true, subtree: true})`)
	p.open("/")
	p.sees("5 jobs")
}

// confirm presses a button that opens a dialog, reads what it says will happen,
// and agrees.
func (p *tab) confirm(open, says, agree string) {
	p.t.Helper()
	p.press(open)
	p.has("dialog[open]")
	p.sees(says)
	p.press(agree)
	p.becomes("the dialog is closed", `!document.querySelector('dialog[open]')`)
}

// A volume shows where it is and who claims it.
func testVolumes(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, phoneDark)
	p.open("/volumes")
	p.sees("No volume yet")
	c.berth("volume", "create", c.file("records.volume.hcl", volumeSpec))
	p.sees("records", "ready")
	c.run("keeper", volumeJob)
	p.sees("keeper", "disk")
	p.looks(desktopDark)
	p.sees("mkdir")
	p.picture("story-volumes")
	p.check()
	p.press("keeper")
	p.sees("1 of 1 placed")
	c.berth("job", "stop", "-detach", "-purge", "keeper") // later stories count allocations
	c.shows("/v1/jobs?prefix=keeper", "[]")
}

// The logs of all instances stand in one view, each line with its instance, and
// can be searched.
func testLogsTogether(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopLight)
	p.open("/job/web/logs")
	p.sees("front[0] started on port", "front[1] started on port")
	p.picture("story-logs-together")
	p.check()
	p.fill(`input[aria-label="Only lines with"]`, "front[1]")
	p.gone("front[0]")
	p.sees("front[1] started on port")
	p.open("/job/evil/logs")
	p.sees("<iframe src=javascript:alert(4)></iframe>")
}

// A deployment with a canary is paused, resumed and promoted; the next one is
// failed. Each says first what will happen.
func testCanary(t *testing.T, c *cluster, b *browser) {
	version := func(n int) { c.run("canary", strings.Replace(canaryJob, "VERSION", fmt.Sprint(n), 1)) }
	version(0)
	c.shows("/v1/job/canary/deployment", `"Status":"successful"`)
	p := b.tab(t, c.addr, desktopLight)
	p.open("/job/canary")
	p.sees("1 of 1")
	version(1)
	p.sees("Deployment of version 1", "1 canary of 1", "until somebody promotes them", "1 of 1 healthy")
	p.picture("story-canary")
	p.check()
	p.confirm("Pause…", "nothing more is replaced until it is resumed", "Pause")
	p.sees("Resume…")
	c.shows("/v1/job/canary/deployment", `"Status":"paused"`)
	p.confirm("Resume…", "It goes on replacing instances", "Resume")
	p.confirm("Promote…", "1 canary becomes an instance", "Promote")
	c.shows("/v1/job/canary/deployment", `"Status":"successful"`)
	p.gone("Promote…")
	version(2)
	p.sees("Deployment of version 2", "until somebody promotes them")
	p.confirm("Fail…", "nothing is reverted by itself", "Fail it")
	p.sees("failed", "Revert…")
	c.shows("/v1/job/canary/deployment", `"Status":"failed"`)
	p.press("Revert…")
	p.sees("Version 2", "Version 1")
}

// A stream job is a graph of its processing elements and what they send to each
// other.
func testStream(t *testing.T, c *cluster, b *browser) {
	c.run("flow", streamJob)
	p := b.tab(t, c.addr, desktopLight)
	p.open("/streams")
	p.sees("flow")
	p.press("flow")
	p.sees("source", "work", "sink")
	p.becomes("the graph has three elements and two routes", `document.querySelectorAll('svg.graph rect').length === 3 && document.querySelectorAll('svg.graph > path').length === 2`)
	p.sees("n1") // the node that each runs on
	p.picture("story-stream")
	p.check()
}

// A node is drained: how many are left is shown while it lasts. It is stopped,
// and what waited runs again.
func testDrain(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, phoneLight)
	p.open("/node/" + c.first("/v1/nodes", "ID"))
	p.sees("It takes work")
	p.confirm("Drain…", "the node takes no new allocations", "Move ")
	p.sees("It is being drained", "to go")
	p.picture("story-drain")
	p.check()
	p.confirm("Stop the drain…", "What is still here stays", "Stop the drain")
	p.sees("It takes work")
	c.shows("/v1/job/web/summary", `"Running":2`)
}

// What changes is shown by itself; a lost connection is shown, and the page goes
// on when the agent is back.
func testLost(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopLight)
	p.open("/jobs?q=later")
	p.sees("No job matches", "Live")
	c.run("later", strings.ReplaceAll(webJob, "web", "later-one"))
	p.sees("later-one", "running")
	_ = c.agent.Signal(syscall.SIGKILL)
	<-c.agent.Done()
	p.sees("Connection lost", "The connection to the agent is lost")
	p.picture("story-lost")
	c.start()
	p.sees("Live")
	p.gone("The connection to the agent is lost")
	c.run("later2", strings.ReplaceAll(nightlyJob, "nightly", "later-two"))
	p.sees("later-two")
}

// ask calls the API with a token.
func (c *cluster) ask(method, path, token, body string) string {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.addr+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("X-Nomad-Token", token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		c.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return string(text)
}

// With access control a token is needed, and the pages offer what it allows. The
// token is in no storage and no cookie.
func TestSigningIn(t *testing.T) {
	c := newCluster(t, "acl {\n  enabled = true\n}\nui {\n  label {\n    text             = \"<b>Production</b>\"\n    background_color = \"#8b0000\"\n    text_color       = \"white\"\n  }\n}")
	root := field(c.ask("PUT", "/v1/acl/bootstrap", "", ""), "SecretID")
	c.ask("PUT", "/v1/acl/policy/reader", root, `{"Name": "reader", "Rules": "namespace \"default\" { policy = \"read\" }"}`)
	ann := c.ask("PUT", "/v1/acl/token", root, `{"Name": "ann", "Type": "client", "Policies": ["reader"]}`)
	reader := field(ann, "SecretID")
	c.token = root
	c.run("web", webJob)
	signedIn := strings.TrimSpace(c.berth("ui", "-show-url", "-authenticate"))
	if !strings.HasPrefix(signedIn, c.addr+"/ui/#ott=") {
		t.Fatalf("berth ui says %s", signedIn)
	}
	_, once, _ := strings.Cut(signedIn, "=")

	// A provider for logins with OIDC.
	redirect := c.addr + "/ui/settings/oidc"
	idp := logintest.Start(t, redirect)
	c.ask("PUT", "/v1/acl/auth-method", root, fmt.Sprintf(`{"Name": "sso", "Type": "OIDC", "TokenLocality": "local", "MaxTokenTTL": "1h", "Config": {
		"OIDCDiscoveryURL": %q, "OIDCClientID": %q, "OIDCClientSecret": %q, "BoundAudiences": [%[2]q], "AllowedRedirectURIs": [%[4]q], "OIDCScopes": ["profile"]}}`,
		idp.URL, logintest.ClientID, logintest.ClientSecret, redirect))
	c.ask("PUT", "/v1/acl/binding-rule", root, `{"AuthMethod": "sso", "BindType": "policy", "BindName": "reader"}`)

	b := newBrowser(t)
	p := b.tab(t, c.addr, desktopLight)
	p.open("/")
	p.sees("you are not signed in")
	p.press("Sign in")
	p.fill("input[type=password]", "wrong")
	p.keys("Enter")
	p.sees("not valid")
	p.fill("input[type=password]", reader)
	p.keys("Enter")
	p.sees("ann", "job runs")
	p.press("Jobs")
	p.sees("web")
	p.press("web")
	p.sees("front", "Stop…")
	var stored, stop string
	p.eval(`JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])`, &stored)
	if strings.Contains(stored, reader) {
		t.Errorf("the token is stored: %s", stored)
	}
	p.eval(`[...document.querySelectorAll('button')].find((b) => b.innerText.startsWith('Stop')).title`, &stop)
	if !strings.Contains(stop, "lacks submit-job") {
		t.Errorf("the button to stop says %q", stop)
	}
	p.gone("Nodes")
	p.becomes("the label of the configuration has its colors", `(() => {
		const e = document.querySelector('.top .label'), s = e && getComputedStyle(e)
		return !!s && e.innerText === '<b>Production</b>' && s.backgroundColor === 'rgb(139, 0, 0)' && s.color === 'rgb(255, 255, 255)'
	})()`)
	p.picture("story-reader")
	// Another tab of the same agent borrows the token.
	beside := b.beside(t, c.addr, p.profile)
	beside.open("/")
	beside.sees("ann")
	// So does one that has stopped waiting for it, and already asks what it may do
	// without a token.
	late := b.beside(t, c.addr, p.profile)
	late.before(`(() => {
		const lent = new Promise((done) => { new BroadcastChannel('berth').onmessage = (e) => { if (e.data.token) done() } })
		const { fetch, setTimeout } = window
		window.setTimeout = (f, after) => after === 60 ? (queueMicrotask(f), 0) : setTimeout(f, after)
		window.fetch = async (path, init) => {
			if (path === '/v1/ui/start') {
				window.asked ??= init.headers['X-Nomad-Token'] ?? 'without a token'
				await lent
			}
			return fetch(path, init)
		}
	})()`)
	late.open("/")
	late.sees("ann")
	late.becomes("it asked too early", `window.asked === 'without a token'`)
	// And one that the agent did not answer at first.
	again := b.beside(t, c.addr, p.profile)
	again.before(`(() => {
		const { fetch } = window
		let failed = false
		window.fetch = (path, init) => {
			if (path !== '/v1/ui/start' || failed) return fetch(path, init)
			failed = true
			return Promise.reject(new TypeError('Failed to fetch'))
		}
	})()`)
	again.open("/settings")
	again.sees("You are signed in as ann")
	// A token that is deleted is not valid any more, and the page says so.
	c.ask("DELETE", "/v1/acl/token/"+field(ann, "AccessorID"), root, "")
	beside.press("Jobs")
	beside.sees("the token is not valid any more")

	// A one-time token signs in, once, and leaves the address.
	p = b.tab(t, c.addr, desktopLight)
	p.open(strings.TrimPrefix(signedIn, c.addr+"/ui"))
	p.sees("Bootstrap Token", "Nodes")
	var at string
	p.eval(`location.href`, &at)
	if strings.Contains(at, once) {
		t.Errorf("the one-time token is still in the address: %s", at)
	}
	// Who signs out, signs out of all tabs: none shows a secret any more.
	c.ask("PUT", "/v1/var/app/db", root, `{"Items": {"password": "hunter2"}}`)
	secret := b.beside(t, c.addr, p.profile)
	secret.open("/variable/app%2Fdb")
	secret.press("Show values")
	secret.sees("hunter2")
	p.press("Bootstrap Token")
	p.press("Sign out of all tabs")
	secret.gone("hunter2")
	secret.sees("Sign in with a token")
	p = b.tab(t, c.addr, desktopLight)
	p.open("/settings#ott=" + once)
	p.sees("The one-time token is not valid")

	// The provider's page has no looks: its form is made here.
	p.press("Sign in with sso")
	p.becomes("the provider asks who it is", `location.origin === `+quoted(idp.URL)+` && document.readyState === 'complete'`)
	p.eval(fmt.Sprintf(`(() => {
		const form = document.createElement('form')
		Object.assign(form, {method: 'POST', action: '/login'})
		for (const [name, value] of Object.entries({id: new URLSearchParams(location.search).get('authRequestID'), user: 'ann', password: %s})) form.append(Object.assign(document.createElement('input'), {name, value}))
		document.body.append(form)
		setTimeout(() => form.submit())
	})()`, quoted(logintest.Password)), nil)
	p.sees("job runs")
	p.eval(`location.href`, &at)
	if strings.Contains(at, "code=") {
		t.Errorf("the code is still in the address: %s", at)
	}
	p.press("Jobs")
	p.sees("web")
}

// The screenshots of README: make screenshots.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("BERTH_SCREENSHOTS")
	if dir == "" {
		t.Skip("BERTH_SCREENSHOTS names no directory")
	}
	c := full(t, "client {\n  memory_total_mb = 8192\n}")
	c.run("waiting", strings.Replace(waitingJob, "9000000", "12288", 1)) // as people write it
	c.shows("/v1/job/report-builder/explain", "12288")
	b := newBrowser(t)
	for _, s := range []struct {
		look
		path string
		sees []string
		file string
	}{
		{look{width: 1200, height: 760}, "/job/report-builder/why", []string{"What would help", "The nodes that come closest"}, "ui-why-light.png"},
		{look{width: 1200, height: 760, dark: true}, "/", []string{"need attention", "Capacity of ready nodes"}, "ui-overview-dark.png"},
	} {
		p := b.tab(t, c.addr, s.look)
		p.open(s.path)
		p.sees(append(s.sees, "Live")...)
		p.shot(filepath.Join(dir, s.file), false)
	}
}
