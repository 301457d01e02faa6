package ui

import (
	"fmt"
	"strings"
	"testing"
)

// chooses chooses a region in Settings.
func (p *tab) chooses(region string) {
	p.t.Helper()
	p.press("Settings")
	p.becomes("the region "+region+" can be chosen", fmt.Sprintf(`(() => {
		const e = document.querySelector('select[aria-label=Region]')
		if (![...(e?.options ?? [])].some((o) => o.value === %[1]s)) return false
		e.value = %[1]s
		e.dispatchEvent(new Event('change', {bubbles: true}))
		return true
	})()`, quoted(region)))
	p.becomes("the top of the page names the region", `document.querySelector('.top [title=Region]')?.innerText === `+quoted(region))
}

// A page shows another region than that of its agent, live as well, and comes back.
// A token that is not valid there stays with the page.
func TestRegions(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("acl=%v", secure), func(t *testing.T) {
			acl := fmt.Sprintf("acl {\n  enabled = %v\n}\n", secure)
			home, abroad := newCluster(t, acl), newCluster(t, acl+"region = \"eu\"")
			tokens := map[*cluster]string{}
			for c, job := range map[*cluster]string{home: "web", abroad: "far"} {
				if secure {
					c.token = field(c.ask("PUT", "/v1/acl/bootstrap", "", ""), "SecretID")
					tokens[c] = c.token
				}
				c.run(job, strings.ReplaceAll(webJob, "web", job))
			}
			abroad.berth("server", "join", home.serf)
			home.until("both know the regions", func() string {
				if a, b := home.get("/v1/regions"), abroad.get("/v1/regions"); a != b || !strings.Contains(a, "eu") {
					return a + b
				}
				return ""
			})
			p := newBrowser(t).tab(t, home.addr, desktopLight)
			p.open("/settings")
			if secure {
				p.fill("input[type=password]", tokens[home])
				p.keys("Enter")
				p.sees("Bootstrap Token")
			}
			p.chooses("eu")
			p.press("Jobs")
			if secure {
				p.sees("the token is not valid")
				p.sees("Bootstrap Token")
			} else {
				p.sees("far")
				p.gone("web")
				abroad.run("farther", strings.ReplaceAll(webJob, "web", "farther"))
				p.sees("farther")
			}
			p.chooses("global")
			p.press("Jobs")
			p.sees("web")
			p.gone("far")
			p.picture(fmt.Sprintf("story-regions-%v", secure))
		})
	}
}
