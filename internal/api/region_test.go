package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"berth"
	"berth/internal/api"
)

// A job that names no region, or "global", which clients write into such jobs, is of
// the region of its servers. Other regions are refused where none is known.
func TestTheRegionOfAJob(t *testing.T) {
	for _, c := range []struct {
		of, query, job string
		code           int
	}{
		{"eu", "", "", 200}, {"eu", "", "global", 200}, {"eu", "", "eu", 200}, {"eu", "?region=eu", "", 200}, {"eu", "?region=eu", "global", 200},
		{"eu", "?region=global", "", 200}, {"eu", "?region=global", "global", 200},
		{"eu", "", "us", 400}, {"eu", "?region=us", "", 400}, {"eu", "?region=us", "eu", 400}, {"eu", "?region=eu", "us", 400},
		{"global", "", "", 200}, {"global", "", "global", 200}, {"global", "", "eu", 400}, {"global", "?region=eu", "global", 400},
	} {
		s, log := serve(t, func(conf *api.Config) { conf.Region = c.of })
		body := fmt.Sprintf(`{"Job": {"ID": "web", "Region": %q, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "x"}}]}]}}`, c.job)
		for _, path := range []string{"/v1/validate/job", "/v1/job/web/plan", "/v1/jobs"} {
			w := ask(s, http.MethodPut, path+c.query, body)
			fine := w.Code == http.StatusOK && (path != "/v1/validate/job" || strings.Contains(w.Body.String(), `"Error":""`))
			if fine != (c.code == http.StatusOK) || w.Code != http.StatusOK && w.Code != c.code {
				t.Errorf("%s of a job of %q in %q%s: %d %s", path, c.job, c.of, c.query, w.Code, w.Body)
			}
		}
		j := log.Tip().Job(berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"})
		if (j != nil) != (c.code == 200) || j != nil && j.Region != c.of {
			t.Errorf("a job of %q in %q%s became %+v", c.job, c.of, c.query, j)
		}
	}
}
