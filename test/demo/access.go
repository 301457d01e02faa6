package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// accessActs shows how two teams share a cluster.
func (s *stage) accessActs() []act {
	return []act{
		{"With access control nobody may do anything, until somebody makes the first token", s.bootstrap},
		{"Two teams, each with a namespace, a policy and a token", s.makeTeams},
		{"A secret that reaches one task, and no other of the same job", s.passSecret},
		{"What is refused says what is missing, to those who may know", s.refuse},
		{"Keys are rotated: every variable is encrypted again", s.rotateKeys},
		{"Everything is stopped", s.stopAccess},
	}
}

// write writes a file of the demonstration and shows it.
func (s *stage) write(name, text string) (string, error) {
	path := filepath.Join(s.Dir, name)
	fmt.Fprintf(s.out, "$ cat %s\n%s\n", name, text)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// bootstrap starts an agent with access control and makes the first token.
func (s *stage) bootstrap() error {
	guard, err := s.write("acl.hcl", "acl {\n  enabled = true\n}\n")
	if err != nil {
		return err
	}
	ports := filepath.Join(s.Dir, "ports.hcl")
	if err := os.WriteFile(ports, []byte(listen), 0o600); err != nil {
		return err
	}
	config, err := filepath.Abs(s.file("agent.hcl"))
	if err != nil {
		return err
	}
	fmt.Fprint(s.out, "$ berth agent -config examples/agent.hcl -config acl.hcl -data-dir … &\n")
	s.agent = s.Agent("agent", "-config", config, "-config", guard, "-config", ports, "-data-dir", filepath.Join(s.Dir, "data"))
	if err := s.launch(s.agent); err != nil {
		return err
	}
	s.addr = s.agent.Banner("HTTP")
	if err := s.refused("no token was sent", "node", "status"); err != nil {
		return err
	}
	if s.token, err = s.secret("acl", "bootstrap", "-t", "{{.SecretID}}"); err != nil {
		return err
	}
	return until(s.ctx, "the node is ready", func() (bool, error) {
		out, err := s.command("node", "status")
		return err == nil && strings.Contains(out, "ready"), nil
	})
}

// secret runs a command that prints a secret, shows it, and returns the secret.
func (s *stage) secret(args ...string) (string, error) {
	out, err := s.show(args...)
	if secret := strings.TrimSpace(out); err == nil && len(secret) != 36 {
		return "", fmt.Errorf("berth %s: %q is no secret", strings.Join(args, " "), out)
	}
	return strings.TrimSpace(out), err
}

// refused shows a command that is refused, with the reason.
func (s *stage) refused(why string, args ...string) error {
	fmt.Fprintf(s.out, "$ berth %s\n", strings.Join(args, " "))
	_, err := s.command(args...)
	exit, ok := err.(*exitError)
	if !ok || !strings.Contains(exit.text, why) {
		return fmt.Errorf("berth %s was not refused with %q: %v", strings.Join(args, " "), why, err)
	}
	_, said, _ := strings.Cut(exit.text, "Error: ")
	fmt.Fprintf(s.out, "Error: %s\n\n", said)
	return nil
}

// as runs the demonstration with another token for a moment.
func (s *stage) as(token string, do func() error) error {
	was := s.token
	s.token = token
	defer func() { s.token = was }()
	return do()
}

// makeTeams makes namespaces, policies and tokens.
func (s *stage) makeTeams() error {
	s.teams = map[string]string{}
	for _, team := range []string{"red", "blue"} {
		path, err := s.write(team+".hcl", fmt.Sprintf(`namespace %q {
  policy = "write"
  variables {
    path "*" {
      capabilities = ["write", "read", "list"]
    }
  }
}
`, team))
		if err != nil {
			return err
		}
		if _, err := s.show("namespace", "apply", team); err != nil {
			return err
		}
		if _, err := s.show("acl", "policy", "apply", team, path); err != nil {
			return err
		}
		if s.teams[team], err = s.secret("acl", "token", "create", "-name", team, "-policy", team, "-t", "{{.SecretID}}"); err != nil {
			return err
		}
	}
	return nil
}

// shop is a job of two tasks that ask for the same secret.
const shop = `job "shop" {
  namespace = "red"
  group "web" {
%s%s  }
}
`

// asks is a task that asks for the secret by the API of its own socket.
const asks = `    task %q {
      driver = "raw_exec"
      identity { env = true }
      config {
        command = "/bin/sh"
        args    = ["-c", "%s var get -address unix://$NOMAD_SECRETS_DIR/api.sock -item password nomad/jobs/shop/web/app 2>&1; sleep 1000"]
      }
      resources { memory = 64 }
    }
`

// passSecret stores a secret at the path of one task, and has two ask for it.
func (s *stage) passSecret() error {
	return s.as(s.teams["red"], func() error {
		if _, err := s.show("var", "put", "-namespace", "red", "nomad/jobs/shop/web/app", "password=correct-horse"); err != nil {
			return err
		}
		path := filepath.Join(s.Dir, "shop.nomad.hcl")
		if err := os.WriteFile(path, fmt.Appendf(nil, shop, fmt.Sprintf(asks, "app", s.Binary), fmt.Sprintf(asks, "other", s.Binary)), 0o600); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "$ cat shop.nomad.hcl\n"+shop+"\n", fmt.Sprintf(asks, "app", "berth"), fmt.Sprintf(asks, "other", "berth"))
		if _, err := s.show("job", "run", path); err != nil {
			return err
		}
		for task, want := range map[string]string{"app": "correct-horse", "other": "Permission denied"} {
			err := until(s.ctx, "task "+task+" has its answer", func() (bool, error) {
				out, err := s.command("alloc", "logs", "-namespace", "red", "-job", "shop", "-task", task)
				return err == nil && strings.Contains(out, want), nil
			})
			if err != nil {
				return err
			}
		}
		for _, task := range []string{"app", "other"} {
			if _, err := s.show("alloc", "logs", "-namespace", "red", "-job", "shop", "-task", task); err != nil {
				return err
			}
		}
		return nil
	})
}

// refuse shows requests that are refused.
func (s *stage) refuse() error {
	err := s.as(s.teams["blue"], func() error {
		return s.refused("Permission denied", "job", "status", "-namespace", "red", "shop")
	})
	if err != nil {
		return err
	}
	return s.as(s.teams["red"], func() error {
		if _, err := s.showCode(2, "acl", "can-i", "variables:destroy", "-namespace", "red"); err != nil {
			return err
		}
		return s.refused("lacks variables:destroy", "var", "purge", "-namespace", "red", "nomad/jobs/shop/web/app")
	})
}

// rotateKeys rotates the root keys and reads what was encrypted before.
func (s *stage) rotateKeys() error {
	if _, err := s.show("operator", "root", "keyring", "rotate", "-full"); err != nil {
		return err
	}
	err := until(s.ctx, "nothing is encrypted with the old key", func() (bool, error) {
		out, err := s.command("operator", "root", "keyring", "list")
		return err == nil && !strings.Contains(out, "rekeying"), err
	})
	if err != nil {
		return err
	}
	if _, err := s.show("operator", "root", "keyring", "list"); err != nil {
		return err
	}
	return s.as(s.teams["red"], func() error {
		out, err := s.show("var", "get", "-namespace", "red", "-item", "password", "nomad/jobs/shop/web/app")
		if err == nil && strings.TrimSpace(out) != "correct-horse" {
			err = fmt.Errorf("the variable is %q", out)
		}
		return err
	})
}

// stopAccess ends the job and the agent.
func (s *stage) stopAccess() error {
	if _, err := s.show("job", "stop", "-namespace", "red", "-purge", "-detach", "shop"); err != nil {
		return err
	}
	if err := until(s.ctx, "tasks end", func() (bool, error) { return len(s.tasks()) == 0, nil }); err != nil {
		return err
	}
	return s.interruptAgent()
}
