package cli

import (
	"fmt"
	"strings"
	"testing"

	"berth"
	"berth/op"
)

// wideTree is what the API lists of a stream job with a wide region.
func wideTree(width int) (list []op.Resource) {
	job := op.Resource{Kind: berth.KindJob, Name: "wide", UID: "j-1", Phase: berth.PhaseSubmitted}
	owned := func(kind, name, uid, owner string) op.Resource {
		return op.Resource{Kind: kind, Name: name, UID: uid, OwnerRefs: []berth.OwnerRef{{UID: owner, Block: true}}}
	}
	list = append(list, job)
	for _, kind := range []string{berth.KindConfig, berth.KindEndpoint} {
		for n := range width {
			name := fmt.Sprintf("wide.score[%d]", n)
			list = append(list, owned(kind, name, kind+name, "j-1"))
		}
	}
	for n := range width {
		name := fmt.Sprintf("wide.score[%d]", n)
		pe := owned(berth.KindPE, name, "p"+name, "j-1")
		pe.LaunchCount, pe.Status = 1, "full"
		list = append(list, pe)
	}
	for n := range width {
		a := owned(berth.KindAlloc, fmt.Sprintf("wide.score[%d]", n), fmt.Sprint("a-", n), fmt.Sprintf("pwide.score[%d]", n))
		a.LaunchCount, a.Status = 1, "running"
		list = append(list, a)
	}
	return list
}

// draw returns the tree of a list.
func draw(list []op.Resource, all bool) string {
	verbose := false
	t := &jobTree{verbose: &verbose, all: &all}
	p := new(page)
	t.index(list)
	t.job(p, &list[0])
	return p.text.String()
}

// What is alike is one line; what differs from the others is not.
func TestATreeIsFolded(t *testing.T) {
	list := wideTree(1000)
	for i := range list {
		if r := &list[i]; r.Kind == berth.KindAlloc && r.UID == "a-7" {
			r.Status = "pending"
		}
	}
	want := `Job wide  j-1  generation 0, Submitted
├─ 1000 × Config wide.score[*]  generation 0
├─ 1000 × Endpoint wide.score[*]  generation 0
├─ 999 × ProcessingElement wide.score[*]  generation 0, launch 1, full
│  └─ Allocation wide.score[*]  generation 0, launch 1, running
└─ ProcessingElement wide.score[7]  pwide.score[7]  generation 0, launch 1, full
   └─ Allocation   a-7  wide.score[7]  generation 0, launch 1, pending
`
	if got := draw(list, false); got != want { // the list has no IDs of allocations
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if n := strings.Count(draw(list, true), "\n"); n != len(list) {
		t.Errorf("with -all: %d lines of %d objects", n, len(list))
	}
	if got := draw(wideTree(foldFrom-1), false); strings.Contains(got, "×") {
		t.Errorf("few are folded:\n%s", got)
	}
}

// Each object is looked at a fixed number of times.
func BenchmarkTree(b *testing.B) {
	for _, width := range []int{1000, 10000} {
		list := wideTree(width)
		b.Run(fmt.Sprint(width), func(b *testing.B) {
			for b.Loop() {
				draw(list, true)
			}
		})
	}
}

// The deployments of a job stand above its allocations, the newest first; those of
// an earlier job of that name are not among them.
func TestATreeHasDeployments(t *testing.T) {
	list := []op.Resource{
		{Kind: berth.KindJob, Name: "web", UID: "j-7", CreateIndex: 7, Status: "running"},
		{Kind: berth.KindAlloc, ID: "abcdef01-1111", Name: "web.g[0]", UID: "a-8", Status: "running", OwnerRefs: []berth.OwnerRef{{UID: "j-7", Block: true}}},
	}
	verbose, all := false, false
	tree := &jobTree{verbose: &verbose, all: &all}
	for v := range uint64(7) {
		d := &berth.Deployment{JobID: "web", JobVersion: 6 - v, JobCreateIndex: 7, Status: "successful"}
		d.ID[0] = byte(6 - v)
		tree.deployments = append(tree.deployments, d)
	}
	tree.deployments[0].Status = "running"
	tree.deployments = append(tree.deployments, &berth.Deployment{JobID: "web", JobVersion: 99, JobCreateIndex: 3, Status: "failed"})
	p := new(page)
	tree.index(list)
	tree.job(p, &list[0])
	want := `Job web  j-7  running
├─ Deployment 06000000  version 6, running
├─ Deployment 05000000  version 5, successful
├─ Deployment 04000000  version 4, successful
├─ Deployment 03000000  version 3, successful
├─ Deployment 02000000  version 2, successful
├─ and 2 older deployments
└─ Allocation abcdef01  a-8  web.g[0]  version 0, running
`
	if got := p.text.String(); got != want {
		t.Errorf("it is\n%s\nnot\n%s", got, want)
	}
}
