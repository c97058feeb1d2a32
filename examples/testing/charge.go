package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// A Biller charges customers through an API. It stands for the code that a
// consumer of this SDK has and wants to test.
type Biller struct {
	Client *http.Client
	URL    string
}

// Charge charges the customer and returns the charge's id.
func (b *Biller) Charge(customer string, amount int) (string, error) {
	body := fmt.Sprintf(`{"amount":%d,"currency":"usd","customer":%q}`, amount, customer)
	resp, err := b.Client.Post(b.URL+"/v1/charges", "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("charge %s: %s", customer, resp.Status)
	}
	var charge struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&charge); err != nil {
		return "", fmt.Errorf("charge %s: %w", customer, err)
	}
	return charge.ID, nil
}
