/**
 * The shapes of what the server answers.
 *
 * @typedef {Object} Category
 * @property {string} id
 * @property {string} name
 * @property {"known"|"new"} kind
 * @property {boolean} is_approved
 * @property {number} size
 * @property {number} n_labelled
 * @property {number} n_unsure
 * @property {number|null} confidence
 * @property {string[]} typical ids of its most typical images
 * @property {number} [similarity] to the category it is a neighbour of
 * @property {string} [why] why it may be several things
 *
 * @typedef {Object} ImageFacts
 * @property {string} id
 * @property {string} file_name
 * @property {number|null} confidence
 * @property {boolean} is_unsure
 * @property {boolean} is_decided a person has put it where it is
 * @property {string|null} label_given
 * @property {string|null} category
 * @property {string|null} name of its category
 *
 * @typedef {Object} Run
 * @property {number} version
 * @property {string} title
 * @property {string} why_read_only
 * @property {string} why_no_pictures
 * @property {number} n_images
 * @property {number} n_images_reviewed
 * @property {number} n_categories
 * @property {number} n_categories_reviewed
 * @property {number} n_unsure
 * @property {boolean} can_undo
 * @property {boolean} can_redo
 * @property {string} [words] what the last edit did
 *
 * @typedef {{total: number, items: ImageFacts[]}} ImagePart
 * @typedef {(offset: number, n: number) => Promise<ImagePart>} ImageSource
 *
 * @typedef {Object} PageScreen
 * @property {HTMLElement} element
 * @property {(what?: any) => Promise<any>} show
 * @property {(event: KeyboardEvent) => any} key does what a key means; false where it means nothing
 */
export {};
