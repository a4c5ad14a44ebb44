// A review gate, a tool plugin and a redactor in one hook.
//
// Run it with: go build hook.go && ./hook
//
// A stage returns its decision. The host logs what goes to stderr; stdout is for the protocol.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"os"
	"regexp"
	"slices"
	"strings"
)

// object is what a hook answers.
type object map[string]any

type params struct {
	Tool      string                     `json:"tool"`
	Arguments map[string]json.RawMessage `json:"arguments"`
	Tools     []json.RawMessage          `json:"tools"`
	Result    map[string]json.RawMessage `json:"result"`
}

var readOnly = []string{"read_file", "list_dir", "search", "get_weather"}

var (
	secrets = regexp.MustCompile(`(password=)\S+|sk-[A-Za-z0-9]{8,}`)
	weather = json.RawMessage(`{"type":"function","function":{"name":"get_weather","description":"Today's weather in a city.",` +
		`"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}`)
)

// decide is what the hook answers; nil if it does not know the method.
func decide(method string, p params) object {
	switch method {
	case "hook.hello":
		return object{"ok": true, "name": "go"}
	case "hook.before_tool":
		return beforeTool(p)
	case "hook.approve_tool":
		return approveTool(p)
	case "hook.before_llm":
		return beforeLLM(p)
	case "hook.after_tool":
		return afterTool(p)
	}
	return nil
}

// A tool is about to be called. Some agents write bash, and some Bash.
func beforeTool(p params) object {
	if strings.EqualFold(p.Tool, "bash") && removes(p.Arguments["command"]) {
		return object{"action": "deny_tool", "reason": "rm -rf is not allowed"}
	}
	if p.Tool == "get_weather" {
		return object{"action": "respond", "result": object{"for_llm": text(p.Arguments["city"]) + ": 21 °C, sunny"}}
	}
	return object{"action": "continue"}
}

// removes says whether a command removes files, or may do so because it is not text.
func removes(command json.RawMessage) bool {
	var text string
	unread := command != nil && json.Unmarshal(command, &text) != nil
	return unread || strings.Contains(text, "rm -rf")
}

// May a tool be called? Anything but a clear yes is a no.
func approveTool(p params) object {
	if slices.Contains(readOnly, p.Tool) {
		return object{"approved": true}
	}
	return object{"approved": false, "reason": p.Tool + " is not a read-only tool"}
}

func beforeLLM(p params) object {
	if slices.ContainsFunc(p.Tools, isWeather) {
		return object{"action": "continue"}
	}
	return object{"action": "modify", "request": object{"tools": append(p.Tools, weather)}}
}

func isWeather(tool json.RawMessage) bool {
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	return json.Unmarshal(tool, &named) == nil && named.Function.Name == "get_weather"
}

func afterTool(p params) object {
	clean := object{}
	for _, name := range []string{"for_llm", "for_user"} {
		said := text(p.Result[name])
		if redacted := secrets.ReplaceAllString(said, "${1}[redacted]"); redacted != said {
			clean[name] = redacted
		}
	}
	if len(clean) == 0 {
		return object{"action": "continue"}
	}
	return object{"action": "modify", "result": clean}
}

// text is the string that a JSON value is, and "" for any other.
func text(value json.RawMessage) (text string) {
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
}

func answer(r request) object {
	reply := object{"jsonrpc": "2.0", "id": r.ID}
	var p params
	err := json.Unmarshal(r.Params, &p)
	result := decide(*r.Method, p)
	switch {
	case result == nil:
		reply["error"] = object{"code": -32601, "message": "no such method: " + *r.Method}
	case err != nil && len(r.Params) > 0:
		reply["error"] = object{"code": -32602, "message": err.Error()}
	default:
		reply["result"] = result
	}
	return reply
}

func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	replies := json.NewEncoder(out)
	replies.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			log.Print("not a request: ", err)
		} else if id := string(r.ID); id != "" && id != "0" && r.Method != nil { // an event gets no answer
			if err := replies.Encode(answer(r)); err != nil {
				return err
			}
		}
	}
}

func main() {
	log.SetFlags(0)
	if err := serve(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
