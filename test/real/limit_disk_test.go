package real

import (
	"strings"
	"testing"

	"berth/test/bed"
)

// An allocation that writes more than its ephemeral_disk holds fails and says why,
// where the agent limits disks; the one beside it runs on.
func TestAnAllocationOutgrowsItsDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both, "client { limit_ephemeral_disk = true }")
	a.joined()
	const small = "ephemeral_disk { size = 20 }\nrestart {\n attempts = 0\n mode = \"fail\"\n}\nreschedule {\n attempts = 0\n unlimited = false\n}"
	const logs = "logs {\n max_files = 1\n max_file_size = 1\n}"
	fill := func(mib string) string {
		return sh("dd if=/dev/zero of=local/fill bs=1M count="+mib+" 2>/dev/null; exec sleep 1000", logs)
	}
	a.good("job", "run", "-detach", w.file("large.nomad", group("service", "large", small, fill("30"))))
	a.good("job", "run", "-detach", w.file("fits.nomad", group("service", "fits", small, fill("10"))))
	w.until("the large one fails", func() string {
		all := a.allocs("large")
		if len(all) != 1 || all[0].ClientStatus != "failed" {
			return bed.Got(a.good("job", "status", "large"))
		}
		return ""
	})
	if told := a.good("alloc", "status", a.allocs("large")[0].ID); !strings.Contains(told, "more than 20 MiB, the size of its ephemeral_disk") {
		t.Errorf("it does not say why:\n%s", told)
	}
	a.running("fits")
}
