package real

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/internal/eventually"
)

// An agent has the attributes that its cloud says, jobs find it by them, and an
// agent with exit_on_failure ends if the cloud does not answer.
func TestANodeIsDescribedByItsCloud(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cloud := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if said := map[string]string{"/latest/api/token": "s3ss10n", "/latest/meta-data/instance-id": "i-0123", "/latest/meta-data/placement/availability-zone": "eu-central-1b"}[r.URL.Path]; said != "" {
			io.WriteString(rw, said)
			return
		}
		http.NotFound(rw, r)
	}))
	defer cloud.Close()
	a := w.unstarted("one", both, `client { fingerprint "env_aws" { retry_attempts = 3 } }`)
	a.start("AWS_ENV_URL=" + cloud.URL + "/latest/meta-data/")
	a.joined()
	w.until("the node has the zone", func() string {
		return missing(a.berth("node", "status", "-verbose", a.nodeID).Out, "eu-central-1b")
	})
	w.holds(a.good("node", "status", "-verbose", a.nodeID), "unique.platform.aws.instance-id", "i-0123")
	job := w.file("zone.nomad", `job "zone" {
  type = "batch"
  constraint {
    attribute = "${attr.platform.aws.placement.availability-zone}"
    value     = "eu-central-1b"
  }
  group "g" {
`+sh(`echo in the zone`)+`
  }
}`)
	a.good("job", "run", "-detach", job)
	w.until("the job has run", func() string {
		return missing(a.berth("alloc", "logs", "-job", "zone").Out, "in the zone")
	})
	if all := a.AllSaid(); strings.Contains(all, "s3ss10n") {
		t.Errorf("the log has the token of the session: %s", all)
	}

	lost := w.unstarted("two", both, `client {
  fingerprint "env_aws" {
    retry_attempts  = 1
    retry_interval  = "100ms"
    exit_on_failure = true
  }
}`)
	if err := lost.Start("AWS_ENV_URL=http://127.0.0.1:1/"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lost.Done():
	case <-time.After(eventually.Limit):
		t.Fatal("an agent without its cloud goes on")
	}
	if lost.ExitCode() == 0 {
		t.Error("an agent without its cloud ends well")
	}
	w.holds(lost.AllSaid(), "client.fingerprint.env_aws: the cloud does not answer, and exit_on_failure is true")
}
