// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The features beyond the version that both sides support. A side ignores features that it does not know.
package typealias ControlFeatures = [String]

extension ControlFeatures {
    /// The relay passes `tunnel.candidates` on.
    package static let candidates = "candidates"
    /// The endpoint connects to the URL of a `rejected` with the code `moved`.
    package static let moved = "moved"
}

extension RelayMessage {
    /// The first message of the relay.
    package struct Challenge: ControlMessage {
        package static let type = "challenge"
        /// New for each channel.
        package var nonce: Blob<BlobKinds.Nonce>
        package var relay: RelayID
        /// The relay's clock. The endpoint computes its clock offset from it.
        package var time: Milliseconds
        /// The protocol versions that the relay supports.
        package var versions: [Int]
        package var features: ControlFeatures

        package init(nonce: Blob<BlobKinds.Nonce>, relay: RelayID, time: Milliseconds, versions: [Int], features: ControlFeatures) {
            self.nonce = nonce
            self.relay = relay
            self.time = time
            self.versions = versions
            self.features = features
        }

        package init(json: JSONValue) throws(JSONError) {
            self.nonce = try json.member("nonce")
            self.relay = try json.member("relay")
            self.time = try json.member("time")
            self.versions = try json.member("versions")
            self.features = try json.member("features")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("nonce", nonce)
            json.member("relay", relay)
            json.member("time", time)
            json.member("versions", versions)
            json.member("features", features)
        }
    }

    /// The relay accepts the endpoint.
    package struct Welcome: ControlMessage {
        package static let type = "welcome"
        package var limits: Limits
        package var intervals: Intervals
        /// Other URLs of the relay, best first. The endpoint tries its configured URL before these.
        package var urls: [String]
        package var features: ControlFeatures
        /// The name of the account, for people; `nil` if it has none.
        package var accountName: String?
        /// The version of the relay's program, such as `0.1.0`, for people.
        package var software: String?

        package init(
            limits: Limits,
            intervals: Intervals,
            urls: [String],
            features: ControlFeatures,
            accountName: String? = nil,
            software: String? = nil
        ) {
            self.limits = limits
            self.intervals = intervals
            self.urls = urls
            self.features = features
            self.accountName = accountName
            self.software = software
        }

        /// The time limits for silence on the channel.
        package struct Intervals: JSONObjectCodable, Hashable, Sendable {
            /// Either side pings after this much silence.
            package var ping: Milliseconds
            /// Either side closes the channel after this much silence.
            package var dead: Milliseconds

            package init(ping: Milliseconds = 30_000, dead: Milliseconds = 75_000) {
                self.ping = ping
                self.dead = dead
            }

            package init(json: JSONValue) throws(JSONError) {
                self.ping = try json.member("ping")
                self.dead = try json.member("dead")
            }

            package func writeMembers(to json: inout JSONWriter) {
                json.member("ping", ping)
                json.member("dead", dead)
            }
        }

        package init(json: JSONValue) throws(JSONError) {
            self.limits = try json.member("limits")
            self.intervals = try json.member("intervals")
            self.urls = try json.member("urls")
            self.features = try json.member("features")
            self.accountName = try json.optional("accountName")
            self.software = try json.optional("software")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("limits", limits)
            json.member("intervals", intervals)
            json.member("urls", urls)
            json.member("features", features)
            json.member("accountName", accountName)
            json.member("software", software)
        }
    }

    /// The relay rejects the endpoint and closes the channel.
    package struct Rejected: ControlMessage, Error {
        package static let type = "rejected"
        package var code: ControlErrorCode
        /// A text for people.
        package var message: String
        /// Whether the same endpoint may try again. If the code is about the token, it needs a new token.
        package var retry: Bool
        /// How long to wait before the next attempt.
        package var retryAfter: Milliseconds?
        /// The limit, if the code is `limitExceeded`.
        package var limit: ExceededLimit?
        /// The token's account, if the code is `wrongAccount`. The endpoint signs its record again for this account.
        package var account: String?
        /// The name of that account, for people; `nil` if it has none.
        package var accountName: String?
        /// Where the endpoint connects instead, if the code is `moved`: scheme, host and port. See `ControlFeatures.moved`.
        package var url: String?

        package init(
            code: ControlErrorCode,
            message: String,
            retry: Bool,
            retryAfter: Milliseconds? = nil,
            limit: ExceededLimit? = nil,
            account: String? = nil,
            accountName: String? = nil,
            url: String? = nil
        ) {
            self.code = code
            self.message = message
            self.retry = retry
            self.retryAfter = retryAfter
            self.limit = limit
            self.account = account
            self.accountName = accountName
            self.url = url
        }

        package init(json: JSONValue) throws(JSONError) {
            self.code = try json.member("code")
            self.message = try json.member("message")
            self.retry = try json.member("retry")
            self.retryAfter = try json.optional("retryAfter")
            self.limit = try json.optional("limit")
            self.account = try json.optional("account")
            self.accountName = try json.optional("accountName")
            self.url = try json.optional("url")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("code", code)
            json.member("message", message)
            json.member("retry", retry)
            json.member("retryAfter", retryAfter)
            json.member("limit", limit)
            json.member("account", account)
            json.member("accountName", accountName)
            json.member("url", url)
        }
    }
}

extension EndpointMessage {
    /// The first message of an endpoint. It proves the account and the endpoint.
    package struct Hello: ControlMessage {
        package static let type = "hello"
        /// The protocol version, one of those in the challenge.
        package var version: Int
        package var token: Secret<String>
        package var record: Blob<BlobKinds.EndpointRecord>
        /// The URL's scheme, host and port that the endpoint dialled.
        package var origin: String
        /// The identity key's signature of the `HelloStatement`.
        package var signature: Blob<BlobKinds.Signature>
        package var role: Role
        /// A random value, equal for all channels of one process. A newer channel replaces the older one with the same instance and role.
        package var instance: Blob<BlobKinds.Instance>
        package var features: ControlFeatures

        package init(
            version: Int,
            token: Secret<String>,
            record: Blob<BlobKinds.EndpointRecord>,
            origin: String,
            signature: Blob<BlobKinds.Signature>,
            role: Role,
            instance: Blob<BlobKinds.Instance>,
            features: ControlFeatures
        ) {
            self.version = version
            self.token = token
            self.record = record
            self.origin = origin
            self.signature = signature
            self.role = role
            self.instance = instance
            self.features = features
        }

        /// The role of a channel.
        package enum Role: String, JSONCodable, Sendable {
            /// Determines presence and receives commands and tunnels. An endpoint has one.
            case host
            /// Watches, sends and opens tunnels, in addition to the host.
            case client
        }

        package init(json: JSONValue) throws(JSONError) {
            self.version = try json.member("version")
            self.token = try json.member("token")
            self.record = try json.member("record")
            self.origin = try json.member("origin")
            self.signature = try json.member("signature")
            self.role = try json.member("role")
            self.instance = try json.member("instance")
            self.features = try json.member("features")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("version", version)
            json.member("token", token)
            json.member("record", record)
            json.member("origin", origin)
            json.member("signature", signature)
            json.member("role", role)
            json.member("instance", instance)
            json.member("features", features)
        }
    }
}
