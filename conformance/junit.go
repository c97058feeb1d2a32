package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name      string      `xml:"name,attr"`
		Tests     int         `xml:"tests,attr"`
		Failures  int         `xml:"failures,attr"`
		Skipped   int         `xml:"skipped,attr"`
		Time      string      `xml:"time,attr"`
		Timestamp string      `xml:"timestamp,attr"`
		Cases     []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string       `xml:"classname,attr"`
		Name    string       `xml:"name,attr"`
		Time    string       `xml:"time,attr"`
		Failure *junitReason `xml:"failure"`
		Skipped *junitReason `xml:"skipped"`
	}
	junitReason struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as JUnit XML, each check as a test case. A Must
// that failed is a failure. A Should that failed is written as skipped, with what
// happened as its message, so that it is seen and does not fail a build.
func (r Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{
		Name: "idempotency conformance, profile " + string(r.Profile), Tests: len(r.Results),
		Time: seconds(r.Took), Timestamp: r.Started.UTC().Format("2006-01-02T15:04:05"),
	}
	for _, res := range r.Results {
		theme, _, _ := strings.Cut(res.ID, ".")
		c := junitCase{Class: "conformance." + theme, Name: res.ID + ": " + res.About, Time: seconds(res.Took)}
		switch {
		case res.Outcome == Skip:
			c.Skipped = &junitReason{Message: res.Why}
			suite.Skipped++
		case res.Outcome == Fail && res.Level == Should:
			c.Skipped = &junitReason{Message: "a should that failed: " + res.Why, Text: res.text()}
			suite.Skipped++
		case res.Outcome == Fail:
			c.Failure = &junitReason{Message: res.Why, Type: string(res.Level), Text: res.text()}
			suite.Failures++
		}
		suite.Cases = append(suite.Cases, c)
	}
	out, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{suite}}, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, out)
	}
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
