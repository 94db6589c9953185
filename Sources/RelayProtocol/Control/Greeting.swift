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
        package struct Intervals: Codable, Hashable, Sendable {
            /// The relay pings after this much silence.
            package var ping: Milliseconds
            /// Either side gives the other up after this much silence.
            package var dead: Milliseconds

            package init(ping: Milliseconds = 30_000, dead: Milliseconds = 75_000) {
                self.ping = ping
                self.dead = dead
            }
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
        package enum Role: String, Codable, Sendable {
            /// Makes presence and receives commands and tunnels; one for each endpoint.
            case host
            /// Watches, sends and dials, beside the host.
            case client
        }
    }
}
