// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What both sides agree to leave out or use beyond the version; a side ignores features it does not know.
package typealias ControlFeatures = [String]

extension RelayMessage {
    /// The relay's first word.
    package struct Challenge: ControlMessage {
        package static let type = "challenge"
        /// Fresh for this channel.
        package var nonce: Blob<BlobKinds.Nonce>
        package var relay: RelayID
        /// The relay's clock, from which the endpoint keeps its offset.
        package var time: Milliseconds
        /// The protocol versions the relay speaks.
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

    /// The endpoint is in.
    package struct Welcome: ControlMessage {
        package static let type = "welcome"
        package var limits: Limits
        package var intervals: Intervals
        /// Where to come back to, best first; empty for where one came from.
        package var urls: [String]
        package var features: ControlFeatures

        package init(limits: Limits, intervals: Intervals, urls: [String], features: ControlFeatures) {
            self.limits = limits
            self.intervals = intervals
            self.urls = urls
            self.features = features
        }

        /// When silence means something.
        package struct Intervals: JSONObjectCodable, Hashable, Sendable {
            /// The relay pings after this much silence.
            package var ping: Milliseconds
            /// Either side gives the other up after this much silence.
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
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("limits", limits)
            json.member("intervals", intervals)
            json.member("urls", urls)
            json.member("features", features)
        }
    }

    /// The endpoint is not let in; the relay closes.
    package struct Rejected: ControlMessage, Error {
        package static let type = "rejected"
        package var code: ControlErrorCode
        /// For people.
        package var message: String
        /// Whether the same endpoint may try again, with a new token where the code is about the token.
        package var retry: Bool
        /// Not before this long.
        package var retryAfter: Milliseconds?
        /// The limit, where the code is `limitExceeded`.
        package var limit: ExceededLimit?
        /// The account the token is of, where the code is `wrongAccount`: the endpoint signs its record anew.
        package var account: String?

        package init(
            code: ControlErrorCode,
            message: String,
            retry: Bool,
            retryAfter: Milliseconds? = nil,
            limit: ExceededLimit? = nil,
            account: String? = nil
        ) {
            self.code = code
            self.message = message
            self.retry = retry
            self.retryAfter = retryAfter
            self.limit = limit
            self.account = account
        }

        package init(json: JSONValue) throws(JSONError) {
            self.code = try json.member("code")
            self.message = try json.member("message")
            self.retry = try json.member("retry")
            self.retryAfter = try json.optional("retryAfter")
            self.limit = try json.optional("limit")
            self.account = try json.optional("account")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("code", code)
            json.member("message", message)
            json.member("retry", retry)
            json.member("retryAfter", retryAfter)
            json.member("limit", limit)
            json.member("account", account)
        }
    }
}

extension EndpointMessage {
    /// Who the endpoint is, and that its account's owner let it in.
    package struct Hello: ControlMessage {
        package static let type = "hello"
        /// The version chosen from the challenge's.
        package var version: Int
        package var token: Secret<String>
        package var record: Blob<BlobKinds.EndpointRecord>
        /// The URL's scheme, host and port that the endpoint dialled.
        package var origin: String
        /// By the identity key, over what the design's section on identity lists.
        package var signature: Blob<BlobKinds.Signature>
        package var role: Role
        /// Random, the same for all channels of one process: a newer channel takes the place of the older one of its role.
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

        /// What a channel is for.
        package enum Role: String, JSONCodable, Sendable {
            /// Makes presence and receives commands and tunnels; one for each endpoint.
            case host
            /// Watches, sends and dials, beside the host.
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
