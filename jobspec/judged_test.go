package jobspec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth"
)

// inGroup is a job file with more in its group and in its task.
func inGroup(group, task string) string {
	return fmt.Sprintf(`job "j" {
  group "g" {
    %s
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
      %s
    }
  }
}`, group, task)
}

// withService is a job file whose group has a service and a port "http".
func withService(text string) string {
	return inGroup("network {\n port \"http\" {}\n}\nservice {\n name = \"web\"\n"+text+"\n}", "")
}

const secondTask = "task \"u\" {\n driver = \"mock_driver\"\n}"

// What published job files hold: what Nomad accepts and Berth supports is
// accepted, and what is wrong is reported once, at its cause. want holds the
// paths of all problems.
func TestJobFilesAreJudgedByTheirCause(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       []string
	}{
		// Accepted.
		{"three tasks with the default logs and disk", inGroup(secondTask+"\n"+strings.Replace(secondTask, `"u"`, `"v"`, 1), ""), nil},
		{"a group named alloc", strings.Replace(inGroup("", ""), `group "g"`, `group "alloc"`, 1), nil},
		{"memory_max without limit", inGroup("", "resources {\n memory_max = -1\n}"), nil},
		{"names for the shell in a driver's config", strings.Replace(inGroup("", ""), `"/bin/true"`, `"${FOO} ${HOST.name} ${env["A"]}"`, 1), nil},
		{"check_restart of a service of several tasks", withService("provider = \"nomad\"\nport = \"http\"\ncheck {\n type = \"tcp\"\n interval = \"5s\"\n timeout = \"2s\"\n check_restart {\n limit = 3\n}\n}\n}\n" + strings.TrimSuffix(secondTask, "}")), nil},
		{"migrate with equal times", inGroup("migrate {\n min_healthy_time = \"1m\"\n healthy_deadline = \"1m\"\n}", ""), nil},
		{"restart of a task beyond its interval", inGroup("", "restart {\n attempts = 100\n interval = \"1m\"\n delay = \"30s\"\n}"), nil},
		{"service on port 0", withService("provider = \"nomad\"\nport = \"0\""), nil},
		{"service on a port of the environment", withService("provider = \"nomad\"\nport = \"${NOMAD_PORT_http}\""), nil},
		{"tcp check with a path", withService("provider = \"nomad\"\nport = \"http\"\ncheck {\n type = \"tcp\"\n path = \"/\"\n interval = \"5s\"\n timeout = \"2s\"\n}"), nil},
		{"a driver that this build does not know", strings.Replace(inGroup("", ""), `"raw_exec"`, `"firecracker-task-driver"`, 1), nil},
		{"a job ID of two lines", strings.Replace(inGroup("", ""), `job "j"`, `job "a\n\tb"`, 1), nil},

		// Refused at their cause.
		{"logs as large as the disk", inGroup("ephemeral_disk {\n size = 100\n}", ""), []string{"job.group[g].task[t].logs"}},
		{"logs as large as the disk, and more", inGroup("count = -1\nephemeral_disk {\n size = 100\n}", ""), []string{"job.group[g].count", "job.group[g].task[t].logs"}},
		{"kill_timeout above progress_deadline", inGroup("update {\n progress_deadline = \"10m\"\n}", "kill_timeout = \"11m\""), []string{"job.group[g].task[t].kill_timeout"}},
		{"restart of a group beyond its interval", inGroup("restart {\n attempts = 100\n interval = \"1m\"\n delay = \"30s\"\n}", ""), []string{"job.group[g].restart"}},
		{"connect of a service without a provider", withService("port = \"http\"\nconnect {\n native = true\n}\ncheck {\n type = \"script\"\n command = \"/bin/true\"\n interval = \"5s\"\n timeout = \"2s\"\n}"), []string{"job.group[g].service[web].connect"}},
		{"connect of a service in Nomad", withService("provider = \"nomad\"\nconnect {\n native = true\n}"), []string{"job.group[g].service[web].connect"}},
		{"a port of the task's own network", inGroup("service {\n name = \"web\"\n provider = \"nomad\"\n port = \"http\"\n}", "resources {\n network {\n port \"http\" {}\n}\n}"), []string{"job.group[g].service[web].port"}},
		{"a wrong port of a service with checks", withService("provider = \"nomad\"\nport = \"htpp\"\ncheck {\n type = \"tcp\"\n interval = \"5s\"\n timeout = \"2s\"\n}"), []string{"job.group[g].service[web].port"}},
		{"an unknown type", strings.Replace(inGroup("", ""), "group", "type = \"cron\"\nperiodic {\n cron = \"0 3 * * *\"\n}\nmigrate {}\ngroup", 1), []string{"job.type"}},
		{"an ID that is no text", `{"Job": {"ID": 7, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "mock_driver"}]}]}}`, []string{"job.id"}},
		{"a list that is a number", `{"Job": {"ID": "j", "TaskGroups": 3}}`, []string{"job.group"}},
		{"memory_max below a wrong memory", inGroup("", "resources {\n memory = -5\n memory_max = -7\n}"), []string{"job.group[g].task[t].resources.memory"}},
		{"no driver", strings.Replace(inGroup("", ""), `"raw_exec"`, `""`, 1), []string{"job.group[g].task[t].driver"}},
		{"a mistyped variable in a driver's config", strings.Replace(inGroup("", ""), `"/bin/true"`, `"${vars.x}"`, 1), []string{"job.group[g].task[t].config.command"}},
		{"a job ID with a space", strings.Replace(inGroup("", ""), `job "j"`, `job "a b"`, 1), []string{"job.id"}},
		{"a task named like a directory of the allocation", strings.Replace(inGroup("", ""), `task "t"`, `task ".Supervise"`, 1), []string{"job.group[g].task[.Supervise].name"}},
		{"a task named like a directory of a task", strings.Replace(inGroup("", ""), `task "t"`, `task "secrets"`, 1), []string{"job.group[g].task[secrets].name"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(t.Context(), File{Name: "j.hcl", Text: []byte(tt.file)}, Options{})
			var got []string
			if ps, ok := errors.AsType[berth.Problems](err); ok {
				for _, p := range ps {
					got = append(got, p.Path)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("refused at %q, want %q\n%v\n%s", got, tt.want, err, tt.file)
			}
		})
	}
}
