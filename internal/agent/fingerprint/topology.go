package fingerprint

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/cpuset"
)

// guessedMHz is taken for a core whose speed nothing tells: too low wastes a
// little, too high would promise what is not there.
const guessedMHz = 1000

// processors sets the node's cores, their speed in MHz and how they are
// connected, and warns of cores that the configuration names in vain.
func processors(ctx context.Context, c *Config, n *berth.Node, log *slog.Logger) {
	mhz, model := 0.0, ""
	infos, err := cpu.InfoWithContext(ctx)
	if err != nil {
		log.Warn("processors cannot be looked at", "error", err)
	}
	for _, i := range infos {
		mhz = max(mhz, i.Mhz)
		model = or(model, i.ModelName)
	}
	n.Attributes["cpu.arch"], n.Attributes["cpu.modelname"] = runtime.GOARCH, model
	t := readTopology(os.DirFS("/sys/devices"), allowedCores(), uint64(mhz))
	if t.guessed {
		log.Warn("the processors' speed is not known; set cpu_total_compute if it matters", "guess_mhz", guessedMHz)
	}
	for _, missing := range []struct {
		key  string
		list []uint16
	}{{"reserved.cores", c.Reserved.Cpu.ReservedCpuCores}, {"reservable_cores", c.ReservableCores}} {
		if not := cpuset.Minus(missing.list, t.ids()); len(not) > 0 {
			log.Warn("the configuration names cores that this machine does not have, or may not use", "key", "client."+missing.key, "cores", cpuset.Format(not))
		}
	}
	t.describe(c, n)
}

// allowedCores returns the cores that this process may run on, which in a
// container are not all there are; nil if that cannot be found out.
func allowedCores() (out []uint16) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			out = append(out, uint16(i))
		}
	}
	return out
}

// topology is what the kernel tells of the processors.
type topology struct {
	cores     []berth.Core // in order of ID, never none
	nodes     []uint8      // NUMA nodes, never none
	distances [][]uint8    // by place in nodes
	guessed   bool         // the speed of some core is a guess of ours
}

// readTopology reads /sys/devices, of which what is missing is left out:
// containers and virtual machines show little of it. Of the cores that are
// online those are taken that are allowed; nil allows all. mhz is the speed of
// a core that tells none itself, 0 if that is not known either.
func readTopology(sys fs.FS, allowed []uint16, mhz uint64) *topology {
	t := &topology{}
	ids := readSet(sys, "system/cpu/online")
	if len(ids) == 0 {
		ids = allowed
	}
	// If the two have nothing in common, one of them is wrong; what is online
	// is the safer guess.
	if common := cpuset.Both(ids, allowed); len(common) > 0 {
		ids = common
	}
	if len(ids) == 0 {
		for i := range runtime.NumCPU() {
			ids = append(ids, uint16(i))
		}
	}
	efficient := readSet(sys, "cpu_atom/cpus") // of processors with two kinds of core
	for _, id := range ids {
		dir := fmt.Sprintf("system/cpu/cpu%d/", id)
		core := berth.Core{
			ID: id, SocketID: uint8(readNumber(sys, dir+"topology/physical_package_id")), Grade: slices.Contains(efficient, id),
			BaseSpeed: readNumber(sys, dir+"cpufreq/base_frequency") / 1000, MaxSpeed: readNumber(sys, dir+"cpufreq/cpuinfo_max_freq") / 1000,
			GuessSpeed: mhz,
		}
		if speed(&core) == 0 {
			core.GuessSpeed, t.guessed = guessedMHz, true
		}
		t.cores = append(t.cores, core)
	}
	t.numa(sys)
	return t
}

// numa reads which cores are near each other. Nodes without a core are left
// out.
func (t *topology) numa(sys fs.FS) {
	all := readSet(sys, "system/node/online")
	var places []int // in all, of each node that is taken
	for place, node := range all {
		dir := fmt.Sprintf("system/node/node%d/", node)
		list, has := readSet(sys, dir+"cpulist"), false
		for i := range t.cores {
			if slices.Contains(list, t.cores[i].ID) {
				t.cores[i].NodeID, has = uint8(node), true
			}
		}
		if has && node <= 255 {
			t.nodes, places = append(t.nodes, uint8(node)), append(places, place)
		}
	}
	// A machine that tells nothing is one node, at the usual distance to
	// itself.
	if len(t.nodes) == 0 {
		t.nodes, t.distances = []uint8{0}, [][]uint8{{10}}
		return
	}
	for i, node := range t.nodes {
		line := strings.Fields(readText(sys, fmt.Sprintf("system/node/node%d/distance", node)))
		row := make([]uint8, len(t.nodes))
		for j, place := range places {
			row[j] = 20 // of another node
			if i == j {
				row[j] = 10
			}
			if place < len(line) {
				if d, err := strconv.ParseUint(line[place], 10, 8); err == nil {
					row[j] = uint8(d)
				}
			}
		}
		t.distances = append(t.distances, row)
	}
}

// speed returns what a core is counted with, in MHz: what it keeps up for
// long, or the best that is known.
func speed(c *berth.Core) uint64 { return or(or(c.BaseSpeed, c.MaxSpeed), c.GuessSpeed) }

// ids returns the numbers of all cores, in order.
func (t *topology) ids() (out []uint16) {
	for i := range t.cores {
		out = append(out, t.cores[i].ID)
	}
	return out
}

// compute returns what some of the cores are counted with together, in MHz.
func (t *topology) compute(some []uint16, override int) (sum int64) {
	for i := range t.cores {
		if slices.Contains(some, t.cores[i].ID) {
			sum += int64(speed(&t.cores[i]))
		}
	}
	if override > 0 { // then each core is as good as another
		return int64(override) * int64(len(cpuset.Both(t.ids(), some))) / int64(len(t.cores))
	}
	return sum
}

// describe writes what there is, and what of it tasks may have, into the node.
// Cores that are kept back count as processor time that is kept back, too.
func (t *topology) describe(c *Config, n *berth.Node) {
	ids, reserved := t.ids(), n.ReservedResources
	total, withheld := t.compute(ids, c.CPUTotalCompute), reserved.Cpu.CpuShares
	kept := cpuset.Both(ids, reserved.Cpu.ReservedCpuCores)
	// What the configuration reserves is corrected to cores that exist.
	reserved.Cpu.ReservedCpuCores = kept
	reserved.Cpu.CpuShares += uint64(t.compute(kept, c.CPUTotalCompute))

	reservable := cpuset.Minus(ids, kept)
	if c.ReservableCores != nil {
		reservable = cpuset.Both(reservable, c.ReservableCores)
	}
	for i := range t.cores {
		t.cores[i].Disable = slices.Contains(kept, t.cores[i].ID)
	}
	// The same figures twice: as resources for the scheduler, as attributes for
	// constraints.
	r := n.NodeResources
	r.Cpu = berth.NodeCpuResources{CpuShares: total, TotalCpuCores: uint16(len(ids)), ReservableCpuCores: reservable}
	r.Processors.Topology = &berth.Topology{
		Nodes: t.nodes, Distances: t.distances, Cores: t.cores,
		OverrideTotalCompute: uint64(max(0, c.CPUTotalCompute)), OverrideWitholdCompute: withheld,
	}
	a := n.Attributes
	a["cpu.totalcompute"] = strconv.FormatInt(total, 10)
	a["cpu.usablecompute"] = strconv.FormatInt(max(0, total-int64(reserved.Cpu.CpuShares)), 10)
	a["cpu.numcores"], a["cpu.reservablecores"] = strconv.Itoa(len(ids)), strconv.Itoa(len(reservable))
	t.grades(a)
	a["numa.node.count"] = strconv.Itoa(len(t.nodes))
	for _, node := range t.nodes {
		var list []uint16
		for i := range t.cores {
			if t.cores[i].NodeID == node {
				list = append(list, t.cores[i].ID)
			}
		}
		a[fmt.Sprintf("numa.node%d.cores", node)] = cpuset.Format(list)
	}
}

// grades tells of cores by their kind: how many there are, and how fast.
func (t *topology) grades(a map[string]string) {
	var fastest uint64
	for _, kind := range []struct {
		name  string
		grade bool
	}{{"performance", false}, {"efficiency", true}} {
		n, mhz := 0, uint64(0)
		for i := range t.cores {
			if c := &t.cores[i]; c.Grade == kind.grade {
				n++
				mhz = max(mhz, speed(c))
			}
		}
		if n == 0 {
			continue
		}
		a["cpu.numcores."+kind.name], a["cpu.frequency."+kind.name] = strconv.Itoa(n), strconv.FormatUint(mhz, 10)
		fastest = max(fastest, mhz)
	}
	a["cpu.frequency"] = strconv.FormatUint(fastest, 10)
}

// readText returns a file's text without space around it, "" if it cannot be
// read.
func readText(sys fs.FS, name string) string {
	b, err := fs.ReadFile(sys, path.Clean(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// readNumber returns 0 for what is no number: the kernel says -1 where it does
// not know.
func readNumber(sys fs.FS, name string) uint64 {
	n, err := strconv.ParseUint(readText(sys, name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// readSet returns the cores or nodes that a file lists as 0-3,8; nil if it
// cannot be read.
func readSet(sys fs.FS, name string) []uint16 {
	set, err := cpuset.Parse(readText(sys, name))
	if err != nil {
		return nil
	}
	return set
}
