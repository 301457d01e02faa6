package ui

import (
	"strings"
	"testing"
)

// full starts a cluster in which every page has something to show.
func full(t *testing.T, config string) *cluster {
	t.Helper()
	c := newCluster(t, "audit {\n  enabled = true\n}\n"+config)
	c.shows("/v1/nodes", `"Status":"ready"`)
	for name, text := range map[string]string{"web": webJob, "waiting": waitingJob, "failing": failingJob, "nightly": nightlyJob, "evil": evilJob} {
		c.run(name, text)
	}
	c.berth("var", "put", "app/db", "password=<b>secret</b>")
	for path, want := range map[string]string{
		"/v1/job/web/summary": `"Running":2`, "/v1/job/importer/summary": `"Failed":1`, "/v1/job/evil/summary": `"Running":1`, "/v1/evaluations?status=blocked": "report-builder",
		"/v1/job/web/deployment": `"Status":"successful"`,
	} {
		c.shows(path, want)
	}
	return c
}

// shown is a page and what it must show.
type shown struct {
	name, path string
	texts      []string
}

// pagesOf are all pages.
func pagesOf(c *cluster) []shown {
	web, evil := c.first("/v1/job/web/allocations", "ID"), c.first("/v1/job/evil/allocations", "ID")
	failed := c.first("/v1/job/importer/allocations", "ID")
	return []shown{
		{"overview", "/", []string{"need attention", "report-builder", "importer", "Capacity of ready nodes", "3\nrunning\n0\nstarting\n1\nwaiting for capacity", "In the last minute", "placed a second"}},
		{"jobs", "/jobs", []string{"5 jobs", "report-builder", "waiting for capacity", "<img src=x onerror=alert(1)>"}},
		{"jobs-filtered", "/jobs?q=web", []string{"1 job", "running"}},
		{"job", "/job/web", []string{"2 of 2", "front", "running"}},
		{"job-failed", "/job/importer", []string{"The last failure", "error: table orders does not exist"}},
		{"job-why", "/job/report-builder/why", []string{"cannot be placed", "What would help", "Make this change", "9,000,000 MiB"}},
		{"job-timeline", "/job/web/timeline", []string{"job-register", "waiting for capacity"}},
		{"job-allocations", "/job/web/allocations", []string{"web.front[0]", "web.front[1]"}},
		{"job-versions", "/job/web/versions", []string{"Version 0", "now"}},
		{"job-evaluations", "/job/web/evaluations", []string{"job-register"}},
		{"job-services", "/job/web/services", []string{"Address", "Allocation"}},
		{"job-objects", "/job/web/objects", []string{"Allocation web.front[0]", "that of web waits for it"}},
		{"job-definition", "/job/evil/definition", []string{"<script>alert('meta')</script>"}},
		{"job-periodic", "/job/nightly", []string{"No child yet", "Launch now"}},
		{"run", "/run", []string{"Nothing runs before you have seen what would happen"}},
		{"allocation", "/alloc/" + web, []string{"It runs on n1", "What happened", "Ports"}},
		{"allocation-failed", "/alloc/" + failed, []string{"Task load failed on n1"}},
		{"allocation-logs", "/alloc/" + web + "/logs", []string{"started on port"}},
		{"allocation-logs-evil", "/alloc/" + evil + "/logs", []string{"<svg onload=alert(3)>", "<iframe src=javascript:alert(4)></iframe>"}},
		{"allocation-files", "/alloc/" + evil + "/files?path=%2Ft%2Flocal&file=%2Ft%2Flocal%2F" + "%3Cb%20onclick%3Dalert(5)%3E.html", []string{"<b onclick=alert(5)>.html", "<script>alert(2)</script>"}},
		{"nodes", "/nodes", []string{"1 node", "ready", "dc1"}},
		{"node", "/node/" + c.first("/v1/nodes", "ID"), []string{"It takes work", "Given to allocations", "raw_exec"}},
		{"topology", "/topology", []string{"1 node.", "By node pool", "What if these nodes fail?"}},
		{"audit", "/audit?operation=job.register", []string{"job.register", "200"}},
		{"evaluations", "/evaluations?status=blocked", []string{"report-builder", "waiting for capacity"}},
		{"evaluation", "/eval/" + c.first("/v1/job/web/evaluations", "ID"), []string{"job-register", "Committed"}},
		{"deployments", "/deployments", []string{"web"}},
		{"deployment", "/deployment/" + c.first("/v1/job/web/deployments", "ID"), []string{"2 of 2 healthy"}},
		{"services", "/services", []string{"web"}},
		{"service", "/service/web", []string{"2 instances are registered"}},
		{"servers", "/servers", []string{"n1.global leads", "Raft", "healthy"}},
		{"streams", "/streams", []string{"No stream job"}},
		{"variables", "/variables", []string{"app/"}},
		{"variable", "/variable/app%2Fdb", []string{"password", "Show values"}},
		{"volumes", "/volumes", []string{"Dynamic host volumes", "No volume yet", "No CSI volume yet", "Storage plugins"}},
		{"job-logs", "/job/web/logs", []string{"front[0] started on port"}},
		{"access", "/access", []string{"Access control is off"}},
		{"settings", "/settings", []string{"Theme", "Region"}},
		{"nothing", "/no/such/page", []string{"There is no page /no/such/page"}},
		{"no-job", "/job/gone", []string{"job not found", "It may have been deleted"}},
	}
}

// Each page shows what it is for, in light on a desktop and in dark on a phone
// (the long form: in all looks). axe-core finds nothing serious, the page is
// not wider than the screen, and nothing that jobs say became an element.
func testPages(t *testing.T, c *cluster, b *browser) {
	looks := []look{desktopLight, phoneDark}
	if long {
		looks = append(looks, desktopDark, phoneLight, zoomedLight)
	}
	tab, whole := b.tab(t, c.addr, looks[0]), t
	for _, p := range pagesOf(c) {
		t.Run(p.name, func(t *testing.T) {
			tab.t = t
			defer func() { tab.t = whole }()
			tab.open(p.path)
			for _, l := range looks {
				tab.looks(l)
				tab.sees(p.texts...)
				tab.becomes("the page fits "+l.name, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(Math.max(document.documentElement.scrollWidth, document.querySelector('#main').scrollWidth) <= innerWidth))))`)
				tab.picture(p.name + "-" + l.name)
				tab.check()
			}
			var foreign int
			tab.eval(`document.querySelectorAll('#main img, #main script, #main iframe, #main svg[onload], #main b[onclick]').length`, &foreign)
			if foreign > 0 {
				t.Errorf("%d elements came out of what jobs say", foreign)
			}
		})
	}
}

// check fails for what axe-core finds that is serious or critical.
func (p *tab) check() {
	p.t.Helper()
	var found []struct {
		ID, Impact, Help string
		Nodes            []string
	}
	p.eval(`window.axe ? 0 : (() => {`+axe+`})()`, nil)
	p.eval(`axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => ({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 4).map((n) => n.html.slice(0, 300))})))`, &found)
	for _, v := range found {
		p.t.Errorf("%s (%s): %s\n    %s", v.ID, v.Impact, v.Help, strings.Join(v.Nodes, "\n    "))
	}
}
