// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
import RelayProtocol
package import RelayStorage

/// Why the issuer cannot be opened, or cannot carry out the operator's command.
package enum IssuerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The database exists, but its key file does not.
    case masterKeyMissing(path: String)
    case masterKeyUnusable(StorageError)
    /// Other users can read the key file.
    case masterKeyExposed(path: String)
    case masterKeyDamaged(path: String)
    /// The database was encrypted with another key.
    case wrongMasterKey
    /// SQLite failed with this result code.
    case database(code: Int32)
    /// A database behind a network does not do what it is asked, for this reason.
    case unavailable(String)
    /// A newer version of the issuer wrote the database.
    case databaseTooNew
    /// The database does not guarantee that a commit survives a loss of power.
    case notDurable
    case unknownUser
    /// The login is revoked or unknown.
    case unknownLogin
    case tooManyInvitations
    /// The proof of an inviter's key was used before.
    case usedProof
    case nameInvalid
    case nameTaken
    case resourceServerNameInvalid
    case unknownResourceServer
    case unknownSigningKey
    /// The password is not allowed, for this reason.
    case passwordInvalid(String)
    /// Too many passwords are hashed at this moment.
    case busy

    package var description: String {
        switch self {
        case .masterKeyMissing(let path):
            "the issuer's key file \(path) is missing; restore it, or remove issuer.sqlite to start again (all devices must join again)"
        case .masterKeyUnusable(let error): "the issuer's key: \(error)"
        case .masterKeyExposed(let path): "others may read the issuer's key file \(path); run: chmod 600 \(path)"
        case .masterKeyDamaged(let path): "the issuer's key file \(path) does not hold \(MasterKey.byteCount) bytes; restore it"
        case .wrongMasterKey: "the issuer's key file is not the one that its database was sealed with; restore it"
        case .database(let code): "the issuer's database cannot be used (SQLite result \(code)): \(Self.advice(code))"
        case .unavailable(let reason): "the issuer's database cannot be used now: \(reason)"
        case .databaseTooNew: "the issuer's database was written by a newer version; update this one, or restore an older backup"
        case .notDurable: "the issuer's database does not take synchronous=FULL and WAL; the file system of its directory is not suitable"
        case .unknownUser: "there is no such user"
        case .unknownLogin: "the login was revoked, or is not known here"
        case .tooManyInvitations: "there are already \(Invitation.maximumOpen) open invitations; let some be used or run out"
        case .usedProof: "the DPoP proof was used; make a new one for each request"
        case .nameInvalid:
            "an account's name has 1 to \(AccountName.maximumCharacters) characters, some of them visible, and no control characters"
        case .resourceServerNameInvalid: "a resource server's name has 1 to 64 letters, digits and characters of -._~"
        case .unknownResourceServer: "there is no such resource server: see `relayd resource-server list`"
        case .unknownSigningKey: "there is no such signing key: see `relayd account key list`"
        case .passwordInvalid(let reason): reason
        case .busy: "too many passwords are hashed at this moment; try again"
        case .nameTaken: "there is an account of this name already, perhaps in other case; choose another name"
        }
    }
}

extension IssuerError {
    private static func advice(_ code: Int32) -> String {
        switch ResultCode(rawValue: code).primaryResultCode {
        case .SQLITE_FULL: "the disk is full"
        case .SQLITE_BUSY, .SQLITE_LOCKED: "another process keeps it locked"
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: "issuer.sqlite is damaged; restore it from a backup"
        default: "see that its directory is writable"
        }
    }
}

/// A user of the issuer.
package struct IssuerUser: Hashable, Sendable {
    /// The subject in tokens: random and permanent.
    package let subject: String
    package let name: String

    package init(subject: String, name: String) {
        self.subject = subject
        self.name = name
    }
}

extension IssuerUser {
    /// Makes a new user with a random subject.
    init(name: AccountName) {
        var subject = ""
        // The commands that take a subject would read a leading hyphen as a flag.
        repeat { subject = Base64.url.encode(randomBytes(16)) } while subject.hasPrefix("-")
        self.init(subject: subject, name: name.text)
    }
}
