// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation

/// The folders of a folder as albums. Only listed names can be read: a name never becomes part of a path unchecked.
struct Library {
    let folder: URL

    func photos(in album: String) throws -> [ListAlbum.Photo] {
        let place = try child(album, of: folder, .typeDirectory)
        return try FileManager.default.contentsOfDirectory(atPath: place.path).sorted().compactMap { name in
            let attributes = try FileManager.default.attributesOfItem(atPath: place.appending(path: name).path)
            guard attributes[.type] as? FileAttributeType == .typeRegular, let size = attributes[.size] as? Int else { return nil }
            return ListAlbum.Photo(name: name, size: size)
        }
    }

    func part(_ call: ReadPhoto) throws -> [UInt8] {
        guard call.offset >= 0 else { throw AppServiceError(.invalidMessage, message: "an offset is 0 or more") }
        let place = try child(call.photo, of: child(call.album, of: folder, .typeDirectory), .typeRegular)
        let file = try FileHandle(forReadingFrom: place)
        defer { try? file.close() }
        try file.seek(toOffset: UInt64(call.offset))
        return Array(try file.read(upToCount: ReadPhoto.largestPart) ?? Data())
    }

    /// The URL of an entry that has the given type. Symbolic links have another type.
    private func child(_ name: String, of folder: URL, _ type: FileAttributeType) throws -> URL {
        let place = folder.appending(path: name)
        guard try FileManager.default.contentsOfDirectory(atPath: folder.path).contains(name),
            try FileManager.default.attributesOfItem(atPath: place.path)[.type] as? FileAttributeType == type
        else { throw AppServiceError(.failure, message: "there is no \(name)") }
        return place
    }
}

struct ListAlbum: AppServiceCall {
    struct Photo: Codable, Sendable {
        var name: String
        var size: Int
    }

    struct Response: Codable, Sendable {
        var photos: [Photo]
    }

    static let type = "list"
    var album: String
}

/// Reads a part of a photo. An empty part means the end.
struct ReadPhoto: AppServiceCall {
    struct Response: Codable, Sendable {
        var data: Data
    }

    static let type = "read"
    static let largestPart = 256 << 10
    var album: String
    var photo: String
    var offset: Int
}
