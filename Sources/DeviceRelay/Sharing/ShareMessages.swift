// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The requests of the app service `share`, from the sending device to the receiving one. The content of files goes over a bulk stream.
package enum ShareMessages {
    package static let serviceName = "share"

    /// Why a device takes no offer, or not all of it.
    package enum Problem: String, Codable, Sendable {
        /// A person or the settings declined it.
        case declined
        /// The question got no answer in time.
        case unanswered
        /// There is no room for it.
        case diskFull
        /// Its folder cannot be written.
        case notWritable
        case tooLarge
        /// It breaks the rules of the protocol.
        case invalid
        /// Too many transfers run there.
        case busy
    }

    /// Why one file is not there at the end.
    package enum EntryProblem: String, Codable, Sendable {
        /// The sender could not read it to its end, or it changed meanwhile.
        case abandoned
        /// What arrived is not what was sent.
        case damaged
        /// The receiver's system does not take its name.
        case nameNotPossible
        case notWritable
    }

    /// A page of an offer. The response to the last page comes when the receiver has decided.
    struct Offer: AppServiceCall {
        static let type = "offer"
        var page: ShareOffer.Page
        /// What the sender calls itself; only for a receiver that does not know it.
        var sender: String?

        struct Response: Codable, Sendable {
            var problem: Problem?
            /// Names the bulk stream that the sender is to open; `nil` for an offer without files.
            var token: [UInt8]?
            /// What the receiver already has.
            var have: [Have]?
        }
    }

    /// The first part of a file, from an earlier transfer.
    package struct Have: Codable, Hashable, Sendable {
        package var entry: UInt32
        package var length: Int64
        package var digest: Digest256

        package init(entry: UInt32, length: Int64, digest: Digest256) {
            (self.entry, self.length, self.digest) = (entry, length, digest)
        }
    }

    /// How far the receiver is.
    struct Progress: AppServiceCall {
        static let type = "progress"

        struct Response: Codable, Sendable {
            /// The bytes of files that it has, with those it had before.
            var bytes: Int64
            var files: Int
        }
    }

    /// The end, after the bulk stream is complete. The response comes when all files are on the receiver's disk.
    struct Finish: AppServiceCall {
        static let type = "finish"

        struct Response: Codable, Sendable {
            var problem: Problem?
            /// The names of the files and folders there, in the order of the offer's top entries; empty for one that is not there.
            var names: [String]?
            var failed: [Failed]?
        }
    }

    struct Failed: Codable, Hashable, Sendable {
        var entry: UInt32
        var problem: EntryProblem
    }
}
