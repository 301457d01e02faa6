package validate_test

import (
	"fmt"
	"strings"
	"testing"

	"berth"
	"berth/internal/validate"
)

// What a namespace may define as an extra claim.
func TestExtraClaimsOfNamespaces(t *testing.T) {
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprint(i)] = "x"
	}
	for _, x := range []struct {
		required, optional map[string]string
		want               string // of the error; "" for none
	}{
		{map[string]string{"a": "${job.region} ${job.namespace} ${job.id} ${job.node_pool} ${group.name} ${task.name} ${alloc.id}", "b": "", "c": "$ { $$ }"},
			map[string]string{"d": "${node.id}${node.datacenter}${node.pool}${node.class}${job.meta.a.b-c}"}, ""},
		{map[string]string{"a": "${job.name}"}, nil, "RequiredExtraClaims[a]: ${job.name} stands for nothing: want ${job.region}, ${job.namespace}, ${job.id}"},
		{map[string]string{"a": "${job.meta.}"}, nil, "RequiredExtraClaims[a]: ${job.meta.} stands for nothing"},
		{nil, map[string]string{"a": "x ${}"}, "OptionalExtraClaims[a]: ${} stands for nothing"},
		{nil, map[string]string{"a": "x ${job.id"}, "OptionalExtraClaims[a]: ${job.id has no end: want }"},
		{nil, map[string]string{"": "x"}, `OptionalExtraClaims: "" is not a name of 1 to 128 bytes`},
		{nil, map[string]string{"\xff": "x"}, `OptionalExtraClaims: "\xff" is not a name`},
		{nil, map[string]string{strings.Repeat("a", 129): "x"}, "is not a name of 1 to 128 bytes"},
		{nil, map[string]string{"a": strings.Repeat("a", 1025)}, "OptionalExtraClaims[a]: must be text of at most 1024 bytes"},
		{nil, map[string]string{"a": "\xff"}, "OptionalExtraClaims[a]: must be text of at most 1024 bytes"},
		{map[string]string{"a": "x"}, map[string]string{"a": "y"}, "OptionalExtraClaims[a]: is in RequiredExtraClaims as well"},
		{many, nil, "RequiredExtraClaims: must be at most 32 together with OptionalExtraClaims, got 33"},
	} {
		err := validate.Namespace(&berth.Namespace{Name: "a", RequiredExtraClaims: x.required, OptionalExtraClaims: x.optional})
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, %v: %v\nwanted: %s", x.required, x.optional, err, x.want)
		}
	}
}

// A job asks for what its namespace defines, and may not make claims too long.
func TestExtraClaimsOfJobs(t *testing.T) {
	n := &berth.Namespace{Name: "a", RequiredExtraClaims: map[string]string{"who": "${job.meta.x}${job.meta.x}"}, OptionalExtraClaims: map[string]string{"b": "", "long": "${job.meta.y}"}}
	job := func(meta map[string]string, claims ...string) *berth.Job {
		return &berth.Job{ID: "j", Meta: meta, TaskGroups: []*berth.TaskGroup{{Name: "g", Tasks: []*berth.Task{{Name: "t", Identity: &berth.WorkloadIdentity{Name: "default", ExtraClaims: claims}}}}}}
	}
	for _, x := range []struct {
		in   *berth.Namespace
		job  *berth.Job
		want string
	}{
		{n, job(nil), ""},
		{n, job(nil, "b", "who"), ""},
		{n, job(nil, "c"), `job.group[g].task[t].identity[default].extra_claims: namespace "a" does not define extra claim "c": it defines b, long, who`},
		{&berth.Namespace{Name: "a"}, job(nil, "c"), "it defines none"},
		{n, job(map[string]string{"x": strings.Repeat("x", 1024)}), ""},
		{n, job(map[string]string{"x": strings.Repeat("x", 1025)}), `job.meta: makes extra claim "who" of namespace "a" longer than 2048 bytes`},
		{n, job(map[string]string{"y": strings.Repeat("x", 2049)}), ""}, // it does not ask for it
		{n, job(map[string]string{"y": strings.Repeat("x", 2049)}, "long"), `extra claim "long"`},
	} {
		err := validate.JobIn(x.in, x.job)
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: %v\nwanted: %s", x.job.TaskGroups[0].Tasks[0].Identity.ExtraClaims, err, x.want)
		}
	}
}
