// Package saferetry makes API calls safe to retry.
package saferetry
